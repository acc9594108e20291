"""Schedules: the division of an instruction's work among kernels, blocks and work items."""
