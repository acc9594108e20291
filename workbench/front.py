"""Functions of the front door itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.compiler.passes.base import Pass, Pipeline


def open(model: str | Path, target: str = "auto", **options: Any) -> Any:
    """The workbench for a model file: parses it, compiles it, and returns the pass explorer.

    Args:
        model: An ONNX file.
        target: What to compile for.
        **options: Options of `compile`, such as `precision`.

    Raises:
        ModelError: The file cannot be read as a model.
    """
    from workbench.compiler.builds.build import compile  # noqa: PLC0415
    from workbench.compiler.onnx import parse_onnx  # noqa: PLC0415

    return compile(parse_onnx(model), target, **options).explore()


def passes() -> "dict[str, type[Pass]]":
    """Every pass by name: frozen dataclasses whose fields are their options."""
    from workbench.compiler.passes.base import all_passes  # noqa: PLC0415

    return all_passes()


def pipelines() -> "dict[str, Pipeline]":
    """Every named pipeline: values that print, compare and can be edited by name."""
    from workbench.compiler.passes.pipelines import PIPELINES  # noqa: PLC0415

    return dict(PIPELINES)
