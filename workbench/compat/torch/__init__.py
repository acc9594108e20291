"""PyTorch's side: the backend of ``torch.compile``, modules that run programs, models of local folders."""
