"""The emitter: C for the value of any instruction at an index."""
