"""Functions of the front door itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.compiler.passes.base import Pass, Pipeline


def open(model: Any, target: str = "auto", **settings: Any) -> Any:
    """The whole workbench as one widget: settings, actions, and panes over one selection.

    Args:
        model: A model's file (ONNX, TensorFlow or the workbench's own), a program or a build.
        target: The target that is chosen first; a build has its own.
        **settings: Other settings: ``device``, ``precision``, ``off`` (names of passes), ``seed``, ``inputs``
            (a file); or ``title``, ``height``, ``theme`` and ``state`` of the widget.

    Raises:
        ModelError: The file cannot be read as a model.
        OperationError: A setting is unknown.
    """
    from workbench.compiler import showing  # noqa: PLC0415
    from workbench.compiler.builds.models import read_model, reading_code  # noqa: PLC0415

    of_widget = {k: settings.pop(k) for k in ("title", "height", "theme", "state") if k in settings}
    source = ""
    if isinstance(model, str | Path):
        model, source = read_model(model), reading_code(model)
    if not hasattr(model, "program"):
        settings = {"target": target, **settings}
    return showing.view("workbench")(model, source=source, settings=settings, **of_widget)


def passes() -> "dict[str, type[Pass]]":
    """Every pass by name: frozen dataclasses whose fields are their options."""
    from workbench.compiler.passes.base import all_passes  # noqa: PLC0415

    return all_passes()


def pipelines() -> "dict[str, Pipeline]":
    """Every named pipeline: values that print, compare and can be edited by name."""
    from workbench.compiler.passes.pipelines import PIPELINES  # noqa: PLC0415

    return dict(PIPELINES)
