"""NumPy at work: memory that is reused, and work spread over threads."""
