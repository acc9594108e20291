"""The emitter: C code for the element of any instruction's result at an index."""
