"""Kernels: how the work of an instruction is spread over blocks and work items."""
