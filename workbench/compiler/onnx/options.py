"""Options of an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim

OPEN = Dim(1, 4096)
"""The lengths of a dimension that a model leaves open, if the caller says nothing of it."""


@dataclass(frozen=True)
class ParseOptions:
    """Options for unknown dimensions, unknown operators and loops."""

    map_input_dims: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Static lengths for inputs, by name."""
    map_dyn_input_dims: Mapping[str, Sequence[Dim | int]] = field(
        default_factory=dict[str, Sequence[Dim | int]]
    )
    """Ranges of lengths for inputs, by name."""
    dim_params: Mapping[str, Dim | int] = field(default_factory=dict[str, Dim | int])
    """The length or range of a symbolic dimension such as ``batch``, by its name."""
    default_dim_value: int = 0
    """The length of a dimension that the model leaves open; 0 means ``default_dyn_dim_value``."""
    default_dyn_dim_value: Dim | None = None
    """The range of a dimension that the model leaves open; None means ``OPEN``, in strict import 1."""
    skip_unknown_operators: bool = False
    """Keep unknown operators as ``unknown:Op`` instructions, which cannot run, instead of failing."""
    max_loop_iterations: int = 10
    """Iterations of a loop whose number of iterations is only known at run time."""
    limit_max_iterations: int = 65535
    """The most iterations of any loop: its scan outputs are allocated at their greatest length."""
    use_dyn_output: bool = True
    """Whether results whose length is data (NonZero, NonMaxSuppression) have their exact length, with a
    dynamic dimension; otherwise they are padded with zeros to their greatest length."""
    constant_inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arrays for inputs that become constants of the program, by name."""
    external_data_path: str | Path | None = None
    """The folder of tensors stored outside the model file; the model's own by default."""
    use_debug_symbols: bool = False
    """Whether instructions carry the names of the model's nodes as debug symbols, which are printed."""
    strict: bool = False
    """Whether to emit the instructions that MIGraphX's importer emits, even where ONNX or onnxruntime
    give other numbers, and keep MIGraphX's rules for shapes."""

    def __post_init__(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            ModelError: Two options contradict each other, or a value is out of range.
        """
        if self.map_input_dims and self.map_dyn_input_dims:
            raise ModelError(
                "map_input_dims and map_dyn_input_dims are both given; give one of them"
            )
        if self.default_dim_value and self.default_dyn_dim_value is not None:
            raise ModelError(
                "default_dim_value and default_dyn_dim_value are both given; give one of them"
            )
        if self.default_dim_value < 0:
            raise ModelError(f"default_dim_value={self.default_dim_value}; expected 1 or more")
        if self.max_loop_iterations < 0:
            raise ModelError(f"max_loop_iterations={self.max_loop_iterations}; expected 0 or more")
        if self.limit_max_iterations < 0:
            raise ModelError(
                f"limit_max_iterations={self.limit_max_iterations}; expected 0 or more"
            )

    @property
    def fills(self) -> bool:
        """Whether the caller gave the length of open dimensions, which some exporters write as 0."""
        return self.strict or self.default_dim_value > 0 or self.default_dyn_dim_value is not None

    @property
    def default_dim(self) -> Dim:
        """The range of a dimension that the model leaves open."""
        if self.default_dyn_dim_value is not None:
            return self.default_dyn_dim_value
        n = self.default_dim_value or int(self.strict)
        return Dim(n, n) if n else OPEN
