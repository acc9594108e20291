"""Modules of PyTorch: operators against eager, architectures through both doors."""
