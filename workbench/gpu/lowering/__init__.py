"""Lowering of a compiled program to a plan of kernels, copies, host steps and places in memory."""
