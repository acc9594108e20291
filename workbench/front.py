"""Functions of the front door itself."""

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from workbench.compiler.passes.base import Pass, Pipeline

Value = TypeVar("Value")


class Named(dict[str, Value]):
    """Values by name; an unknown name raises an error that names those that are near."""

    def __init__(self, kind: str, values: dict[str, Value]) -> None:
        """Values of one kind, such as ``pass``."""
        super().__init__(values)
        self.kind = kind

    def __missing__(self, name: str) -> NoReturn:
        """Say what there is.

        Raises:
            OperationError: Always.
        """
        from workbench.compiler.errors import OperationError  # noqa: PLC0415

        said = str(name)
        near = [n for n in self if said in n][:3] or get_close_matches(said, self, 3, cutoff=0.4)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(self)}"
        )
        raise OperationError(f"no {self.kind} {name!r}; {hint}")


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

    return Named("pass", all_passes())


def pipelines() -> "dict[str, Pipeline]":
    """Every named pipeline: values that print, compare and can be edited by name."""
    from workbench.compiler.passes.pipelines import PIPELINES  # noqa: PLC0415

    return Named("pipeline", dict(PIPELINES))
