"""The workbench, through its front door alone."""

import importlib.util
from pathlib import Path
from typing import Any

from tests.bench.measure import Contender


def present() -> bool:
    """Whether there is a compiler to measure."""
    return importlib.util.find_spec("workbench.compiler.builds.build") is not None


Program = Any
"""A program of the workbench."""


def parse(path: Path, inputs: dict[str, Any]) -> Program:
    """The program of a file, its symbolic dimensions set to those of the inputs."""
    import workbench as wb

    return wb.parse_onnx(path, map_input_dims={k: v.shape for k, v in inputs.items()})


def compiled(path: Path, inputs: dict[str, Any], target: str) -> Any:
    """The build of a file for a target."""
    import workbench as wb

    return wb.compile(parse(path, inputs), target=target)


def after_pipeline(program: Any, pipeline: str) -> Any:
    """The program after a named pipeline."""
    import workbench as wb

    return wb.compile(program, target="cpu", passes=pipeline, record=False).program


def compile_with(program: Any, pipeline: str) -> Contender:
    """`wb.compile` with recording, by a named pipeline."""
    import workbench as wb

    return Contender(lambda _: wb.compile(program, target="cpu", passes=pipeline))


def compile_only(path: Path, inputs: dict[str, Any], record: bool = True) -> Contender:
    """`wb.compile` for the optimising pipeline; the program has been parsed before."""
    import workbench as wb

    program = parse(path, inputs)
    if record:
        return Contender(lambda _: wb.compile(program, target="cpu"))
    return Contender(lambda _: wb.compile(program, target="cpu", record=False))


def parse_and_compile(path: Path, inputs: dict[str, Any]) -> Contender:
    """`wb.parse_onnx` and `wb.compile`, from the file."""
    return Contender(lambda _: compiled(path, inputs, "cpu"))


def run(path: Path, inputs: dict[str, Any], target: str) -> Contender:
    """Running a build."""
    build = compiled(path, inputs, target)
    return Contender(lambda _: build.run(inputs))
