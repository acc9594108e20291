"""NumPy execution: memory that is reused, and work split among threads."""
