"""Prepared models, which ``backend.prepare`` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx.backend.base import BackendRep

from workbench.compat import migraphx
from workbench.compat.migraphx.errors import translated
from workbench.compat.onnx_backend import PreparedModel


class MIGraphXBackendRep(BackendRep):
    """A prepared model: a program, or a model that is imported when its inputs are known.

    Args:
        prog: A program; or a model that leaves lengths open or depends on an input's values, and is
            imported once its inputs are known.
        input_names: The inputs in the order of ``run``; by default the program's order.
    """

    def __init__(
        self, prog: migraphx.program | PreparedModel, input_names: Sequence[str] | None = None
    ) -> None:
        self._prepared = prog
        self._input_names = list(input_names or _names(prog))

    # A list, as MIGraphX's.
    def run(self, inputs: Any, **_: Any) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The outputs for inputs in order or by name, or for a single input.

        Raises:
            Error: There are too few or too many inputs, or one does not fit.
        """
        named = self._named(inputs)
        if isinstance(self._prepared, PreparedModel):
            with translated():
                return list(self._prepared.run(named))
        return [np.array(found) for found in self._prepared.run(named)]

    def _named(self, inputs: Any) -> dict[str, Any]:
        names = self._input_names
        if isinstance(inputs, Mapping):
            return dict(cast("Mapping[str, Any]", inputs))
        values = (
            list(cast("Sequence[Any]", inputs)) if isinstance(inputs, list | tuple) else [inputs]
        )
        if len(values) > len(names):
            listed = ", ".join(names) or "none"
            raise migraphx.Error(f"{len(values)} inputs; the model expects {len(names)}: {listed}")
        return dict(zip(names, values, strict=False))


def _names(prog: migraphx.program | PreparedModel) -> list[str]:
    if isinstance(prog, PreparedModel):
        return [v.name for v in prog.inputs]
    return prog.get_parameter_names()
