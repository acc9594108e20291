"""The compiler core: IR, operations, rewriting, passes, recording and the NumPy reference."""
