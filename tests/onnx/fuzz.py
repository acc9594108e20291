"""Imports damaged models under limits of time and memory: ``python -m tests.onnx.fuzz --cases N``.

A case has to end in a Program, which then prints, validates, compiles and, if it is small, runs; or in
an error of the workbench. Anything else is a finding: another exception, a hang, a crash, much memory.
"""

import argparse
import faulthandler
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Never

import numpy as np

from tests.onnx.mutations import case, data_folder, seeds
from workbench.compiler.builds.build import compile
from workbench.compiler.builds.inputs import generated_inputs
from workbench.compiler.errors import GraphError, ModelError, RewriteError, WorkbenchError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim
from workbench.compiler.ir.validate import validate
from workbench.compiler.onnx import parse_onnx

SECONDS = 5.0
"""Processor time of a case: a busy machine makes no finding."""

BACKSTOP = 120
"""Seconds until a case that does not come back from C is ended, and the process with it."""

MEMORY = 1 << 30
"""Bytes of address space that a case may add."""

SMALL_BYTES, SMALL_WORK, SMALL_PROGRAM = 1 << 22, 1 << 24, 400
"""What is run: bytes of the largest value, operations of an instruction, instructions."""

SHOWN_BYTES = 500

UNCLEAR = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, RecursionError, TypeError,
)  # fmt: skip
"""Errors whose message says nothing of the model: a check is missing in the importer."""


@dataclass(frozen=True)
class Finding:
    """A case that ended as none may."""

    seed: int
    number: int
    what: str

    def __str__(self):
        made_of, data = case(self.seed, self.number)
        lines = [
            f"case {self.number} of seed {self.seed}: {made_of}",
            self.what,
            f"again: python -m tests.onnx.fuzz --seed {self.seed} --first {self.number} --cases 1",
        ]
        if len(data) <= SHOWN_BYTES:
            lines.append(f"bytes: {data.hex()}")
        return "\n".join(lines)


class TooSlowError(BaseException):
    """Raised in a case that takes too long; no handler of exceptions may catch it."""


def _too_slow(*_: Any) -> Never:
    raise TooSlowError(f"over {SECONDS} s of processor time")


def options(seed: int, number: int, folder: Path) -> dict[str, Any]:
    """Options of the import: the usual ones, or some that fill in lengths and skip operators."""
    random = Random(f"options {seed}/{number}")
    found: dict[str, Any] = {"external_data_path": folder}
    if random.random() < 0.2:
        found["skip_unknown_operators"] = True
    if random.random() < 0.3:
        found |= random.choice(
            [
                {"default_dim_value": 2},
                {"default_dyn_dim_value": Dim(1, 4)},
                {"dim_params": {"n": 3}},
            ]
        )
    return found


def source(number: int, data: bytes, folder: Path) -> Path | bytes:
    """The importer's input: the bytes, or now and then a file of them."""
    if number % 8:
        return data
    path = folder / "model.onnx"
    path.write_bytes(data)
    return path


def outcome(data: Path | bytes, **given: Any) -> str:
    """The outcome of a case in a word; raises what is a finding."""
    try:
        program = parse_onnx(data, **given)
    except ModelError as error:
        _check_cause(error, MemoryError, *UNCLEAR)
        if "zip()" in str(error):
            raise
        return "refused as damaged" if "the model is damaged" in str(error) else "refused"
    str(program)
    validate(program)
    if not is_small(program):
        return "imported"
    try:
        compile(program, "cpu").run(generated_inputs(program))
    except (GraphError, RewriteError):  # passes are no part of what a model may break
        raise
    except WorkbenchError as error:
        _check_cause(error, MemoryError, RecursionError)
        return "failed in the run"
    return "ran"


def _check_cause(error: BaseException, *kinds: type[BaseException]) -> None:
    """Raise the cause of an error if it is of one of these kinds."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, kinds):
            raise cause
        cause = cause.__cause__


def is_small(program: Program) -> bool:
    """Whether a program takes little time and memory to run."""
    if len(list(program.instructions)) > SMALL_PROGRAM:
        return False
    for instruction in program.instructions:
        shape = instruction.shape
        if instruction.op.name == "loop" and getattr(instruction.op, "max_iterations", 0) > 50:
            return False
        for part in shape.subs or [shape]:
            if part.subs or (part.dims and max(d.max for d in part.dims) > 1 << 10):
                return False
            if part.bytes > SMALL_BYTES:
                return False
        inputs = [i.shape for i in instruction.inputs]
        is_known = not any(s.is_dynamic for s in (shape, *inputs))
        if is_known and instruction.op.flops(inputs, shape) > SMALL_WORK:
            return False
    return True


# In the process of its own


def work(seed: int, first: int, count: int) -> None:
    """Run cases; prints a line for each, its number before and what became of it after."""
    print(f"{len(seeds())} models", flush=True)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, hard))
    signal.signal(signal.SIGPROF, _too_slow)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as root, np.errstate(all="ignore"):
        folder = data_folder(Path(root))
        for number in range(first, first + count):
            print(number, end=" ", flush=True)
            print(_guarded(seed, number, folder), flush=True)


def _address_space() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    return int(pages) * resource.getpagesize()


def _guarded(seed: int, number: int, folder: Path) -> str:
    data = source(number, case(seed, number)[1], folder)
    faulthandler.dump_traceback_later(BACKSTOP, exit=True)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return outcome(data, **options(seed, number, folder))
    except (Exception, TooSlowError) as error:  # this is what is looked for
        signal.setitimer(signal.ITIMER_PROF, 0)
        places = traceback.extract_tb(error.__traceback__)[-6:]
        at = " < ".join(f"{Path(p.filename).name}:{p.lineno}" for p in reversed(places))
        return f"finding {type(error).__name__}: {error!s:.600} at {at}".replace("\n", "\\n")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


# Outside of it


def fuzz(seed: int, first: int, count: int) -> tuple[list[Finding], Counter[str]]:
    """Run cases in processes of their own; a crash is a finding, and the next process goes on after it.

    Returns:
        The findings, and how many cases ended how.
    """
    findings: list[Finding] = []
    ends: Counter[str] = Counter()
    end = first + count
    while first < end:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.onnx.fuzz", "--work"]
        command += ["--seed", str(seed), "--first", str(first), "--cases", str(end - first)]
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        started, *lines = ran.stdout.splitlines() or [""]
        if not started.endswith("models"):
            raise RuntimeError(f"the cases did not start: {ran.stderr}")
        for line in lines:
            first, ended = int(line.split()[0]), line.partition(" ")[2]
            ends[ended.split()[0] if ended.startswith("finding") else ended] += 1
            if ended.startswith("finding"):
                findings.append(Finding(seed, first, ended))
            elif not ended:
                what = f"the process ended with {ran.returncode}: {ran.stderr[-2000:]}"
                findings.append(Finding(seed, first, what))
        first += 1
    return findings, ends


def main() -> int:
    """Run cases and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--work", action="store_true", help="run them in this very process")
    given = parser.parse_args()
    if given.work:
        work(given.seed, given.first, given.cases)
        return 0
    findings, ends = fuzz(given.seed, given.first, given.cases)
    print(*findings, sep="\n\n")
    print(", ".join(f"{n} {how}" for how, n in ends.most_common()))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
