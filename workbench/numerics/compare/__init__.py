"""Comparison: values aligned, measured and diagnosed, and the report of them."""
