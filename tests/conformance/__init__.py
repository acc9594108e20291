"""onnx's own backend test suite, run as it is, and counted."""
