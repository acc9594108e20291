"""Pairs of kernels: when two can be one."""
