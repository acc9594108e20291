"""Capture: the values of a run, by instruction and by the model's names, within a budget of memory."""
