"""onnxruntime's inner modules, for scripts that import from them."""
