"""Handlers of TensorFlow Lite's operators, one file per family."""
