"""The rules of simplify_algebra."""
