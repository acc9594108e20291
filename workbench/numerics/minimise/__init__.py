"""Minimisation: the smallest program and inputs that still fail."""
