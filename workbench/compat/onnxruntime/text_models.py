"""Models with strings, which programs do not have: run node by node by onnx's own evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np
import onnx

from workbench.compat.onnxruntime.errors import Fail, NotImplemented, fail
from workbench.compat.onnxruntime.profiling import Profile
from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array


def has_text(model: onnx.ModelProto) -> bool:
    """Whether an input or an output of a model is a tensor of strings."""
    values = [*model.graph.input, *model.graph.output]
    return any(v.type.tensor_type.elem_type == onnx.TensorProto.STRING for v in values)


class TextModel:
    """A model that only onnx's evaluator runs; it has no build.

    Args:
        model: The model.

    Raises:
        NotImplemented: The evaluator lacks one of its operators.
    """

    last_build = None

    def __init__(self, model: onnx.ModelProto) -> None:
        """Find the operators."""
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415

        try:
            self._evaluator = ReferenceEvaluator(model)
        except Exception as error:  # the evaluator raises what it finds
            fail(NotImplemented, f"the model has strings, which programs do not have, and {error}")

    @property
    def build(self) -> NoReturn:
        """Refuse: programs have no strings.

        Raises:
            ModelError: Always.
        """
        raise ModelError("a model with strings has no build: programs are made of numbers only")

    def outputs_of(
        self, inputs: Mapping[str, Any], wanted: Sequence[int], profile: Profile | None
    ) -> list[Any]:
        """The wanted outputs; nodes are not timed.

        Raises:
            Fail: A node failed.
        """
        try:
            found = cast("list[Any]", self._evaluator.run(None, dict(inputs)))
        except Exception as error:  # the evaluator raises what a node finds
            fail(Fail, f"Non-zero status code returned: {type(error).__name__}: {error}")
        return [found[k] for k in wanted]

    def on_device(self, inputs: Mapping[str, Any]) -> None:
        """None: strings are never on a device."""


def text_of(value: Any) -> Array:
    """An array of strings: from text, bytes in UTF-8, or fixed bytes with zeros after the text."""
    array = np.asarray(value)
    flat = [_text(one) for one in array.reshape(-1).tolist()]
    return np.array(flat, dtype=object).reshape(array.shape)


def _text(one: Any) -> str:
    return bytes(one).rstrip(b"\0").decode() if isinstance(one, bytes | bytearray) else str(one)
