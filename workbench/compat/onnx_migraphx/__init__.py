"""ONNX's backend interface in MIGraphX's style: ``backend`` prepares models, ``backend_rep`` runs them."""
