"""Compiled models: builds of a program's parts, and the folders that keep them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.constant_part import split
from workbench.compiler.builds.precompiled import build_of, compiled_part, target_of
from workbench.compiler.builds.targets import target_named
from workbench.compiler.errors import ModelError, OperationError
from workbench.compiler.files.mxr.files import SUFFIXES, read_compiled
from workbench.compiler.files.mxr.files import save as save_mxr
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.program import Program
from workbench.compiler.run.lengths import is_dynamic

FORMAT, VERSION = "graph-workbench aitemplate", 1
_FACTS, _REST, _FOLDING, _BOUND = "model.json", "model.mxr", "folding.mxr", "bound.npz"


@dataclass(frozen=True)
class Compiled:
    """A model that can be run and saved."""

    rest: Build
    """The program without what depends on constants only."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    unbound: tuple[str, ...] = ()
    bound: Mapping[str, Array] = field(default_factory=dict[str, Array])
    folding: Build | None = None
    """What depends on constants only."""
    folded: tuple[str, ...] = ()
    """The names that the rest has for its results."""


def compiled_model(
    program: Program,
    outputs: Sequence[str],
    bound: Mapping[str, Any],
    unbound: Iterable[str],
    target: str | None,
    **options: Any,
) -> Compiled:
    """Compile a program whose parameters are inputs and constants.

    Raises:
        ValueError: A name is unknown or given twice, or a value does not fit its constant.
    """
    unbound = tuple(unbound)
    _expect_names(program, outputs, bound, unbound)
    names = (*bound, *unbound)
    values = {n: _bound(program, n, v) for n, v in bound.items()}
    parts = split(program, names)
    target = target or ("gpu" if target_named("gpu").available else "cpu")
    return Compiled(
        compile(parts.rest, target, **options),
        tuple(n for n in program.parameters if n not in names),
        tuple(outputs),
        unbound,
        values,
        compile(parts.constant, target, **options) if parts.constant else None,
        parts.folded,
    )


def _expect_names(
    program: Program, outputs: Sequence[str], bound: Mapping[str, Any], unbound: Sequence[str]
) -> None:
    if len(outputs) != len(program.outputs):
        raise ValueError(
            f"{len(outputs)} output names; the program has {len(program.outputs)} outputs"
        )
    for name in outputs:
        if list(outputs).count(name) > 1:
            raise ValueError(f"Got duplicate name {name} in output_tensors list.")
    for name in (*bound, *unbound):
        if name not in program.parameters:
            raise ValueError(f"Cannot bind {name}: the program has no such parameter")
        if program.parameters[name].is_dynamic:
            raise ValueError(f"Cannot bind {name}: constants have fixed lengths")
        if name in bound and name in unbound:
            raise ValueError(f"Tensor {name} is already bound!")


def _bound(program: Program, name: str, value: Any) -> Array:
    shape = program.parameters[name]
    array = np.asarray(value)
    if array.dtype != shape.type.numpy or array.size != shape.elements:
        raise ValueError(
            f"Cannot bind {name}: expected {shape}, found {array.dtype} {list(array.shape)}"
        )
    return np.ascontiguousarray(array.reshape(shape.lens))


def output_names(program: Program) -> tuple[str, ...]:
    """The names of a program's outputs, or ``output0`` and so on if it has none."""
    return tuple(program.output_names) or tuple(f"output{k}" for k in range(len(program.outputs)))


# Files


def save(model: Compiled, folder: Path) -> None:
    """Write a model to a folder.

    Raises:
        OSError: It cannot be written.
        DeviceError: A kernel does not compile.
    """
    if folder.suffix in SUFFIXES:
        _expect_plain(model)
        format = SUFFIXES[folder.suffix]
        _save(model.rest, folder, format)
        return
    folder.mkdir(parents=True, exist_ok=True)
    _save(model.rest, folder / _REST)
    if model.folding is not None:
        _save(model.folding, folder / _FOLDING)
    flat: dict[str, Any] = {
        str(k): v.reshape(-1).view(np.uint8) for k, v in enumerate(model.bound.values())
    }
    np.savez(folder / _BOUND, **flat)
    bound = [[n, v.dtype.name, list(v.shape)] for n, v in model.bound.items()]
    facts = {
        "format": FORMAT, "version": VERSION, "inputs": model.inputs, "outputs": model.outputs,
        "unbound": model.unbound, "bound": bound, "folded": model.folded,
        "folding": model.folding is not None,
    }  # fmt: skip
    (folder / _FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _save(build: Build, path: Path, format: str = "msgpack") -> None:
    """Write a build; if its lengths are ranges, the program that each set of lengths is compiled from."""
    if not is_dynamic(build.source):
        save_mxr(build.program, path, format, compiled_part(build))
        return
    source = build.source.clone()
    source.targets = (build.target.name,)
    save_mxr(source, path, format)


def _expect_plain(model: Compiled) -> None:
    if model.bound or model.unbound:
        raise OperationError(
            "a model with constants cannot be one .mxr file, which has no place for them; save it to a folder"
        )


def load(path: Path) -> Compiled:
    """Read a model from a folder, or a program from an ``.mxr`` file: its parameters are inputs.

    Raises:
        ModelError: The files are missing, damaged or something else.
    """
    if path.suffix in SUFFIXES or path.is_file():
        build = _build(path)
        return Compiled(build, tuple(build.program.parameters), output_names(build.program))
    try:
        facts = json.loads((path / _FACTS).read_text(encoding="utf-8"))
        if facts["format"] != FORMAT or facts["version"] != VERSION:
            raise ValueError(f"its format is {facts['format']!r}, version {facts['version']}")
        return Compiled(
            _build(path / _REST),
            tuple(facts["inputs"]),
            tuple(facts["outputs"]),
            tuple(facts["unbound"]),
            _arrays(path / _BOUND, facts["bound"]),
            _build(path / _FOLDING) if facts["folding"] else None,
            tuple(facts["folded"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{path}: no model: {error}; expected a folder that Model.save wrote, or an .mxr file"
        ) from error


def _build(path: Path) -> Build:
    program, found = read_compiled(path, SUFFIXES.get(path.suffix, "msgpack"))
    if is_dynamic(program):
        return compile(program, target_of(program).name, record=False)
    return build_of(program, found)


def _arrays(path: Path, rows: list[Any]) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as data:
        stored = cast("Mapping[str, Array]", data)
        return {
            name: stored[str(k)].view(DType.of(type).numpy).reshape(lens)
            for k, (name, type, lens) in enumerate(rows)
        }
