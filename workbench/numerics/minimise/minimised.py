"""The smallest failing program that a search found, and the folder that reproduces its failure."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from workbench.compiler.arrays.metrics import Metric, program_tolerance
from workbench.compiler.errors import ModelError, OperationError
from workbench.compiler.files.archive import save
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.onnx.write import to_onnx
from workbench.compiler.passes.base import passes_of
from workbench.numerics.metrics.limits import Limits
from workbench.numerics.minimise.cases import Case
from workbench.numerics.minimise.failing import Failure, Options

_MODEL, _PROGRAM, _INPUTS, _SCRIPT = "model.onnx", "program.gwb", "inputs.npz", "reproduce.py"


@dataclass(frozen=True)
class Minimised:
    """The smallest failing program that was found, with its inputs and its failure."""

    whole: Case = field(repr=False)
    """The program that was given, with its inputs."""
    smallest: Case
    failure: Failure
    trials: int
    """Number of programs that were tried, the whole one included."""
    exhausted: bool
    """Whether the search ended because it had made the largest number of trials."""
    options: Options
    """The way to compile."""
    limits: Limits | None
    """The limits of right results; None if a predicate was given."""

    @property
    def program(self) -> Program:
        """The smallest program that fails. Its instructions have the ids that they have in the whole one."""
        return self.smallest.program

    @property
    def inputs(self) -> dict[str, Value]:
        """An array for each of its parameters."""
        return dict(self.smallest.inputs)

    @property
    def reason(self) -> str:
        """A clause that says what fails."""
        return self.failure.reason

    @property
    def error(self) -> float:
        """The relative RMS of its worst result; infinite for a NaN, an infinity, an error or a predicate."""
        return self.failure.error

    @property
    def instructions(self) -> tuple[int, int]:
        """The numbers of instructions of the main module before and after, without what is given."""
        return len(self.whole.ids), len(self.smallest.ids)

    @property
    def elements(self) -> tuple[int, int]:
        """The numbers of elements of all inputs, before and after."""
        return self.whole.elements, self.smallest.elements

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the model's nodes that are left."""
        return tuple(dict.fromkeys(s for i in self.program.main for s in i.sources))

    @property
    def summary(self) -> str:
        """One sentence: sizes, target, failure and number of trials."""
        (before, after), (wide, narrow) = self.instructions, self.elements
        where = "" if self.limits is None else f" on {self.options.target}"
        ended = ", the most that were allowed" if self.exhausted else ""
        return (
            f"fails{where} with {_counted(after, 'instruction')} (before: {before:,}) and "
            f"{_counted(narrow, 'element')} of input (before: {wide:,}): {self.reason}; "
            f"{_counted(self.trials, 'trial')}{ended}"
        )

    def __repr__(self) -> str:
        """The summary."""
        return f"<Minimised: {self.summary}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.program._repr_mimebundle_(**options)  # pyright: ignore[reportPrivateUsage]

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the program, its inputs and a script that shows the failure.

        The program is ``model.onnx``. If it cannot be written so, or if reading it again gives another
        program, which need not fail, it is also ``program.gwb`` in the workbench's own form, which the script
        reads then; a comment there says why. The inputs are ``inputs.npz``, where types that NumPy lacks are
        float32; ``python reproduce.py`` prints how far the target's results are from the reference's, with
        exit code 1 if that is too far. Passes that are objects cannot be named in the script; a comment there
        says so.

        Args:
            folder: The folder, which is made if it does not exist.
            overwrite: Replace these files in a folder that is not empty.

        Returns:
            The path of the script.

        Raises:
            OperationError: An input is no array.
            FileExistsError: The folder is not empty, or it is a file.
            OSError: A file cannot be written; then none is new.
        """
        folder = Path(folder)
        _expect_free(folder, overwrite)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as name:
            part = Path(name)
            reason = _write_program(self.program, part, self.options)
            with (part / _INPUTS).open("wb") as opened:
                _write_inputs(opened, self.smallest.inputs)
            (part / _SCRIPT).write_text(_script(self, reason), encoding="utf-8")
            folder.mkdir(exist_ok=True)
            for old in (_MODEL, _PROGRAM):
                (folder / old).unlink(missing_ok=True)
            for file in sorted(part.iterdir()):
                file.replace(folder / file.name)
        return folder / _SCRIPT


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _expect_free(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder}: this is a file; expected a folder, or a new name")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder}: the folder is not empty; choose another one, or pass overwrite=True"
        )


def _write_program(program: Program, folder: Path, options: Options) -> str:
    """Write the program as ONNX, or in its own form; gives the reason for the latter, if it is needed."""
    try:
        to_onnx(program, folder / _MODEL)
    except ModelError as error:
        save(program, folder / _PROGRAM)
        return " ".join(str(error).split())
    try:
        same = str(parse_onnx(folder / _MODEL)) == str(program)
    except ModelError:
        same = False
    if same and not options.kept(program):
        return ""
    save(program, folder / _PROGRAM)
    if same:
        return f"ids choose what keeps its type, and instructions of {_MODEL} have others"
    return f"{_MODEL} has the same meaning, but other instructions when it is read"


def _write_inputs(file: IO[bytes], inputs: Mapping[str, Value]) -> None:
    """Write an .npz file; ``numpy.savez`` has no arrays called ``file``."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in inputs.items():
            if isinstance(value, tuple):
                raise OperationError(
                    f"input {name!r} is a list or tuple, which an .npz file cannot hold; save the program "
                    "with workbench.save, and the input by other means"
                )
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _plain(value), allow_pickle=False)


def _plain(array: Any) -> Any:
    """The array in a type that NumPy's files know."""
    is_own = DType.of(array.dtype).is_float and array.dtype.kind != "f"
    return array.astype(np.float32) if is_own else np.asarray(array)


# The script

_TEXT = """\
# {summary}{note}
from pathlib import Path

import workbench as wb
from workbench.compiler.arrays.metrics import Metric
from workbench.compiler.files.npz import read_npz
from workbench.numerics.metrics.limits import Limits

here = Path(__file__).parent
program = {program}
shapes = program.parameters
inputs = {{k: v.astype(shapes[k].type.numpy) for k, v in read_npz(here / "{inputs}", shapes).items()}}
found = wb.compile(program, {arguments}).run(inputs).outputs
wanted = wb.compile(program, "ref").run(inputs, precision="float64").outputs
limits = Limits(Metric.RELATIVE_RMS, {tolerance!r}, {given!r})
distances = [limits.between(a, b) for a, b in zip(found, wanted, strict=True)]
for k, distance in enumerate(distances):
    print(f"output {{k}}: relative rms {{distance.error:.3g}}, allowed {{distance.limit:.3g}}")
raise SystemExit(not all(d.within for d in distances))
"""


def _script(found: Minimised, reason: str) -> str:
    """The text of ``reproduce.py``; a reason says why the program is not read from ONNX."""
    arguments, note = _arguments(found.options, found.program)
    program = f'wb.load(here / "{_PROGRAM}")' if reason else f'wb.parse_onnx(here / "{_MODEL}")'
    note += f"\n# The program is in the workbench's own form: {reason}." if reason else ""
    limits = found.limits or Limits(Metric.RELATIVE_RMS, program_tolerance(found.program))
    return _TEXT.format(
        summary=" ".join(found.summary.split()), note=note, program=program, inputs=_INPUTS,
        arguments=arguments, tolerance=limits.tolerance, given=limits.given,
    )  # fmt: skip


def _arguments(options: Options, program: Program) -> tuple[str, str]:
    """The arguments of ``compile`` as source text, and a comment on passes that are objects."""
    given = {
        "target": options.target,
        "passes": options.passes,
        "disable": options.disable if isinstance(options.disable, str) else [*options.disable],
        "precision": options.precision,
        "keep": options.kept(program),
        "device": options.device,
    }
    note = ""
    if options.passes is not None and not _is_text(options.passes):
        given["passes"] = None
        names = ", ".join(" ".join(str(p).split()) for p in passes_of(options.passes))
        note = f"\n# Its passes were objects: add them to the first compile as passes=[{names}]."
    return ", ".join(f"{k}={v!r}" for k, v in given.items() if v not in (None, [])), note


def _is_text(passes: Any) -> bool:
    """Whether passes are given by names, and options of plain values."""
    if isinstance(passes, list | tuple | dict):
        inner = cast("Any", passes.values() if isinstance(passes, dict) else passes)
        return all(map(_is_text, inner))
    return isinstance(passes, str | int | float | bool | None)
