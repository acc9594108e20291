"""The operations that ONNX's operators become, from the cases of onnx's own suite and ours."""

import importlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from tests.onnx.models import Case
from workbench.compiler.errors import ModelError, RuntimeValueError
from workbench.compiler.ir.program import Program
from workbench.compiler.onnx import operators, parse_onnx, registry

MARKERS = {"@param", "@literal", "@return", "undefined"}
"""What every program has; no operator is told by it."""

OTHERS = "other operator sets"
"""Where an operator is listed that ONNX does not define, and that no case of ours is of."""

Key = tuple[str, str]
"""The operator set and the name of an operator."""


class Trial(NamedTuple):
    """A model that can be imported, the one operator in it (None if there are several), its inputs."""

    key: Key | None
    model: onnx.ModelProto
    inputs: Mapping[str, Any]


@dataclass
class Operator:
    """An operator of ONNX, and what the importer makes of it."""

    domain: str
    name: str
    versions: tuple[int, ...] = ()
    """Of the operator set, at which it was changed."""
    deprecated: bool = False
    way: str = ""
    """How it is imported: by a ``handler``, by its ``function`` in ONNX, or not at all."""
    operations: set[str] = field(default_factory=set[str])
    tried: int = 0
    refusals: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_refused(self) -> bool:
        """Whether no case of it is imported."""
        return not self.way or (self.tried > 0 and sum(self.refusals.values()) == self.tried)


@cache
def table() -> dict[Key, Operator]:
    """Every operator that ONNX defines or that has a handler."""
    found: dict[Key, Operator] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        key = (schema.domain, schema.name)
        one = found.setdefault(key, Operator(*key))
        one.versions = tuple(sorted({*one.versions, schema.since_version}))
        one.deprecated |= schema.deprecated
        one.way = _way(key)
    named = {name for _, name in found}
    for name in operators():
        if name not in named:
            found[OTHERS, name] = Operator(OTHERS, name, way="handler")
    for trial, result in trials():
        _note(trial, result, found)
    return dict(sorted(found.items()))


def _note(trial: Trial, result: Program | str, found: dict[Key, Operator]) -> None:
    if trial.key is not None:
        one = _operator(trial.key, found)
        one.tried += 1
        if isinstance(result, str):
            one.refusals[result] += 1
    if isinstance(result, Program):
        for key, names in _emitted(result).items():
            _operator(key, found).operations |= names


def _operator(key: Key, found: dict[Key, Operator]) -> Operator:
    domain, name = key
    if key not in found:  # of another operator set than ONNX's own: only its handler is known
        found.pop((OTHERS, name), None)
        found[key] = Operator(domain, name, way="handler")
    return found[key]


def _emitted(program: Program) -> dict[Key, set[str]]:
    """The operations of a program, by the node of the model that they were made from."""
    found: dict[Key, set[str]] = {}
    calls = _calls(program)
    for instruction in program.instructions:
        for source in instruction.sources:
            call = source
            while "/" in call and call not in calls:
                call = call.rpartition("/")[0]
            kind = program.source_nodes[call].op_type
            domain, _, name = kind.rpartition(".")
            if kind != "Initializer" and instruction.name not in MARKERS:
                found.setdefault((domain, name), set()).add(instruction.name)
    return found


def _calls(program: Program) -> set[str]:
    """The nodes that stand in the model itself, not in a function."""
    names = program.source_nodes
    return {n for n in names if not any(n.startswith(f"{o}/") for o in names if o != n)}


def _way(key: Key) -> str:
    if registry.find(*key) is not None:
        return "handler"
    domain, name = key
    schema = onnx.defs.get_schema(name, domain=domain)
    bodies = schema.has_function or schema.has_context_dependent_function
    return "function" if bodies else ""


@cache
def trials() -> list[tuple[Trial, Program | str]]:
    """Models of one node, each with its program, or with the reason for which it is refused."""
    return [(trial, _imported(trial)) for trial in _models()]


def _models() -> Iterator[Trial]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        nodes = case.model.graph.node
        if not re.search(r"_expanded(_ver\d+)?$", case.name):
            names = [i.name for i in case.model.graph.input]
            given = dict(zip(names, case.data_sets[0][0], strict=False))
            key = (nodes[0].domain, nodes[0].op_type) if len(nodes) == 1 else None
            yield Trial(key, case.model, given)
    for file in sorted((Path(__file__).parents[1] / "onnx").glob("cases*.py")):
        values = vars(importlib.import_module(f"tests.onnx.{file.stem}")).values()
        for case in [c for v in values if isinstance(v, list) for c in v if isinstance(c, Case)]:
            yield Trial((case.domain, case.op), case.model(), case.arrays())


def _imported(trial: Trial) -> Program | str:
    fixed: dict[str, Any] = {}
    while True:
        try:
            with np.errstate(all="ignore"):
                return parse_onnx(trial.model, constant_inputs=fixed)
        except RuntimeValueError as error:
            fresh = set(error.inputs) & set(trial.inputs) - set(fixed)
            if not fresh:
                return _reason(error)
            fixed |= {name: trial.inputs[name] for name in fresh}
        except ModelError as error:
            return _reason(error)


def _reason(error: ModelError) -> str:
    """The message without the names of the model and its values."""
    text = str(error).split(": ", 1)[1]
    text = re.sub(r"^((the \w+ node that makes '[^']*'|node '[^']*' \(\w+\)): )+", "", text)
    text = re.sub(r"^(input|initializer|graph) '[^']*': ", "", text)
    return re.split(r"; | \(inputs: ", text)[0]


def operators_of() -> dict[str, list[Operator]]:
    """For each operation, the operators of ONNX that are imported to it."""
    found: dict[str, list[Operator]] = {}
    for one in table().values():
        for name in sorted(one.operations):
            found.setdefault(name, []).append(one)
    return found
