"""Modules: callables that keep the tensors of the graph that they build."""

from __future__ import annotations

from typing import Any


class Module:
    """A callable for ``Ir.create_graph``; subclasses write ``build`` and keep inputs as attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Build the graph's contents."""
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Add operations to the current graph and return its outputs.

        Raises:
            NotImplementedError: The subclass has no ``build``.
        """
        raise NotImplementedError("Your popart.ir.Module must override the method `build`.")
