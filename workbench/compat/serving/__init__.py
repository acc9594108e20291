"""Compiled models under load: throughput, latency, and streams over time."""
