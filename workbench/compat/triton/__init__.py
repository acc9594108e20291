"""Triton Inference Server: folders of its model repository, for its Python backend."""

from workbench.compat.triton.repository import write_repository

__all__ = ["write_repository"]
