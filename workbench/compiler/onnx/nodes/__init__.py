"""Handlers of ONNX operators, a file a family; each file registers its own."""
