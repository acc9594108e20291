"""Passes that write operations out as simpler ones."""
