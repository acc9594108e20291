"""Passes that place results in buffers and spread work over streams."""
