"""Arguments and options that several subcommands of `workbench` have."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    Path,
    typer.Argument(help="An ONNX file, StableHLO (.mlir) or .tflite.", show_default=False),
]
AnyModel = Annotated[
    Path,
    typer.Argument(
        help="A model's file: ONNX, TensorFlow (.pb, a SavedModel, .tflite), StableHLO, or saved by us.",
        show_default=False,
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Argument(
        help="An .npz file; inputs it leaves out come from the seed.", show_default=False
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the inputs that are left out.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[str, typer.Option(help="What to compile for; `workbench targets` lists them.")]
Passes = Annotated[
    str | None, typer.Option(help="Passes in order, separated by commas, in place of the target's.")
]
Disable = Annotated[
    str | None, typer.Option(help="Passes, or rules as pass.rule, to leave out; commas between.")
]
Precision = Annotated[
    str | None, typer.Option(help="fp16 or bf16: the type of every float32 computation.")
]

Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        help="What --precision leaves in float32: a node's name, a scope, op:softmax or re:ln[12]; "
        "may be given several times.",
        show_default=False,
    ),
]


def names_of(text: str | None) -> list[str]:
    """The names in a list with commas between."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def passes_of(text: str | None) -> list[str] | None:
    """The passes of `--passes`; None if the option is not given."""
    return None if text is None else names_of(text)
