"""Options of an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workbench.compiler.errors import ModelError


@dataclass(frozen=True)
class ParseOptions:
    """Options for the layout, open dimensions, outputs and unknown operators."""

    is_nhwc: bool = True
    """Whether the channels of the graph's images come last."""
    batch_size: int = 1
    """The length of a dimension that the graph leaves open."""
    map_input_dims: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Lens of parameters in the program's layout, by name."""
    output_names: tuple[str, ...] = ()
    """The nodes whose values are returned."""
    skip_unknown_operators: bool = False
    """Keep unknown operators as ``unknown:Op`` instructions, which cannot run, instead of failing."""
    strict: bool = False
    """Hold what has rank 0, and constants of one element, in the shape of MIGraphX's scalar."""

    def __post_init__(self) -> None:
        """Refuse values that are out of range.

        Raises:
            ModelError: A length is not positive.
        """
        if self.batch_size < 1:
            raise ModelError(f"batch_size={self.batch_size}; expected 1 or more")
        for name, lens in self.map_input_dims.items():
            if any(n < 0 for n in lens):
                raise ModelError(
                    f"map_input_dims: {name!r} has {list(lens)}; expected no negative lengths"
                )
