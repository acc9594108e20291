"""Passes that change the types in which a program computes."""
