"""Models that NNSmith draws, computed by the workbench and by onnxruntime."""
