"""Attention: how it is recognised, and its forms."""
