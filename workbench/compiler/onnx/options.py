"""Options of an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.shape import Dim


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
    """What a symbolic dimension (``batch``) stands for, by its name."""
    default_dim_value: int = 0
    """The length of a dimension that the model leaves open; 0 means ``default_dyn_dim_value``."""
    default_dyn_dim_value: Dim | None = None
    """The range of a dimension that the model leaves open; None means the length 1."""
    skip_unknown_operators: bool = False
    """Keep unknown operators as ``unknown:Op`` instructions, which cannot run, instead of failing."""
    max_loop_iterations: int = 10
    """Iterations of a loop whose number of iterations is only known at run time."""
    limit_max_iterations: int = 65535
    """More iterations of any loop are cut off, for its scan outputs are made as long as they may get."""
    use_dyn_output: bool = True
    """Whether results whose length is data (NonZero, NonMaxSuppression) are exactly as long as they should
    be, with a dynamic dimension; otherwise they are padded with zeros to the most that there can be."""
    constant_inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arrays for inputs that are to be constants of the program, by name."""
    external_data_path: str | Path | None = None
    """The folder that tensors stored outside of the model file lie in; the model's own by default."""
    use_debug_symbols: bool = False
    """Whether instructions carry the names of the model's nodes as debug symbols, which print."""
    strict: bool = False
    """Whether nodes become the instructions that MIGraphX's importer makes of them, also where ONNX or
    onnxruntime say something else about a number, and the program keeps MIGraphX's rules for shapes."""

    def __post_init__(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            ModelError: Two options give one thing, or a value is out of range.
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
        """Whether the caller said what open dimensions are: some exporters write 0 for these."""
        return self.strict or self.default_dim_value > 0 or self.default_dyn_dim_value is not None

    @property
    def default_dim(self) -> Dim:
        """The range of a dimension that the model leaves open."""
        n = self.default_dim_value or 1
        return self.default_dyn_dim_value or Dim(n, n)
