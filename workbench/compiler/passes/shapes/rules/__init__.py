"""The rules of simplify_reshapes."""
