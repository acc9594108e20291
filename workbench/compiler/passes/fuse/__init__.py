"""Passes that fuse instructions into kernels."""
