"""Random valid models of many operators, compared with onnxruntime."""
