"""Changes of whole graphs."""
