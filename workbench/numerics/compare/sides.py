"""The reference side of a comparison: a run of a program, or named arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from workbench.compiler.arrays.blas import shared
from workbench.compiler.arrays.parallel import threads
from workbench.compiler.builds.build import Build, compile
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.builds.models import read_model
from workbench.compiler.builds.targets import all_targets
from workbench.compiler.errors import InputError, OperationError
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.operation import Value
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.record.alignment import How
from workbench.compiler.report.result import work_of
from workbench.compiler.run.reference import Interpreter
from workbench.compiler.text.printing import names
from workbench.numerics.capture.tensor_names import named_instructions, similar
from workbench.numerics.compare import bodies
from workbench.numerics.compare.alignment import from_source, joined_from_source, matched
from workbench.numerics.compare.arrivals import arriving
from workbench.numerics.compare.expected import is_computed
from workbench.numerics.compare.references import ONNXRUNTIME, as_numbers, named_values
from workbench.numerics.compare.torch_modules import is_module, module_results

Values = MutableMapping[Any, Value]
_LARGE = 10**9
"""Floating-point operations of a large program: a run takes more than 10 ms."""
_AHEAD = 1 << 25
"""Bytes of values by which a reference may be ahead of the run that reads them once each."""
_LAYOUTS = ((0, 3, 1, 2), (0, 2, 3, 1))
"""Permutations of four axes between channels last and channels first."""


@dataclass(frozen=True)
class Counterpart:
    """The reference's value of an instruction of the subject's source."""

    key: Any
    """Its key among the captured values."""
    name: str
    how: How
    is_same_operation: bool = False
    """Whether the reference computes it by the same operation, so that its lens are to be the same."""


class Side(ABC):
    """A reference."""

    is_same_source: bool
    """Whether its values are those of the subject's own source program."""

    @abstractmethod
    def capture(
        self, inputs: Mapping[str, Any], values: Values, progress: bool | None
    ) -> dict[int, Counterpart]:
        """Runs the reference, and keeps its values.

        Args:
            inputs: The subject's inputs.
            values: Receives the values by the counterparts' keys.
            progress: Show a progress bar.

        Returns:
            Counterparts of the instructions of the subject's source, by id.
        """

    def changed_inside(self, id: int) -> tuple[str, ...]:
        """Names of the nodes that differ in the bodies of an instruction of the subject's source."""
        return ()


class Same(Side):
    """The subject's own source program, run by the reference or as another build of it."""

    is_same_source = True

    def __init__(self, subject: Build, other: Build | None, float64: bool) -> None:
        """Keep the sides; without another build, the source itself runs."""
        self.source: Program = subject.source
        self._other = other
        self._float64 = float64
        aligned = from_source(subject)
        self._wanted = {id for ids in aligned.values() for id in (ids if other else ids[:1])}
        self.joined = {} if other else joined_from_source(subject, aligned)
        """The source's values that others of the subject are made of, by the subject's ids."""
        self._wanted.update(key for parts in self.joined.values() for key in parts.keys)

    def capture(
        self, inputs: Mapping[str, Any], values: Values, progress: bool | None
    ) -> dict[int, Counterpart]:
        """Keeps what the subject still computes."""
        ids, named = _run(
            self._other, self.source, inputs, self._float64, values, progress, self._wanted
        )
        return {id: Counterpart(at, named[at], "lineage") for id, at in ids.items()}

    @contextmanager
    def capturing(
        self, inputs: Mapping[str, Any], values: Values, progress: bool | None
    ) -> Generator[tuple[dict[int, Counterpart], Values]]:
        """As ``capture``, but a large source runs in a thread, and its values arrive while it runs.

        Another build does not, because a device may belong to one thread; a small source would be slower.
        """
        if self._other is not None or threads() < 2 or not _is_large(self.source):
            yield self.capture(inputs, values, progress), values
            return
        with (
            shared(2),
            arriving(values, lambda found: self.capture(inputs, found, False)) as found,
        ):
            yield self._to_come(), found

    @property
    def is_streamed(self) -> bool:
        """Whether values may be read while the source runs, and deleted: it is large, its lens are known."""
        shapes = (i.shape for i in self.source.main)
        is_static = not any(s.is_dynamic or s.kind for s in shapes)
        return self._other is None and is_static and _is_large(self.source)

    @contextmanager
    def streaming(
        self, inputs: Mapping[str, Any], values: Values, wanted: Iterable[int]
    ) -> Generator[tuple[dict[int, Counterpart], Values]]:
        """Values of the source, which runs in a thread and waits while too many were not yet deleted.

        Args:
            inputs: The subject's inputs.
            values: Receives the values by the counterparts' keys.
            wanted: Ids of the instructions whose values are told.
        """
        told = self._wanted.intersection(wanted)

        def work(found: Values) -> None:
            _run(None, self.source, inputs, self._float64, found, False, told)

        with shared(2), arriving(values, work, _AHEAD) as found:
            yield self._to_come(), found

    def _to_come(self) -> dict[int, Counterpart]:
        """The counterparts that a run of the source will have values for."""
        named = names(self.source)
        ran = [i for i in self.source.main if i.id in self._wanted and _is_run(i)]
        return {i.id: Counterpart(i.id, named[i.id], "lineage") for i in ran}


class Another(Side):
    """Another program, or a build of it."""

    is_same_source = False

    def __init__(self, subject: Build, other: Build | Program, float64: bool) -> None:
        """Match the two source programs."""
        self._build = other if isinstance(other, Build) else None
        self.source: Program = other.source if isinstance(other, Build) else other
        self._subject = subject.source
        self._float64 = float64
        self.matches = matched(subject.source, self.source)
        """The counterparts of the subject's source instructions, by id."""
        if not any(is_computed(subject.source.instruction(id)) for id in self.matches):
            raise OperationError(
                "compare: the two models have no value in common: no nodes and no tensors of equal names, "
                "and no equal operations on equal shapes"
            )

    def capture(
        self, inputs: Mapping[str, Any], values: Values, progress: bool | None
    ) -> dict[int, Counterpart]:
        """Keeps the values that have a counterpart, constants included."""
        wanted = {m.id for m in self.matches.values()}
        given = self._inputs(inputs)
        ids, named = _run(self._build, self.source, given, self._float64, values, progress, wanted)
        for id in wanted:
            literal = self.source.instruction(id).literal
            if literal is not None:
                values[id] = Interpreter(self.source, True).widened(literal.numpy())
        found: dict[int, Counterpart] = {}
        for mine, match in self.matches.items():
            key = ids.get(match.id, match.id)
            if key in values:
                same = self._is_same(mine, match.id)
                found[mine] = Counterpart(key, named.get(key, ""), match.how, same)
        return found

    def changed_inside(self, id: int) -> tuple[str, ...]:
        """As in the base, where the two instructions have bodies."""
        match = self.matches.get(id)
        if match is None:
            return ()
        both = self._subject.instruction(id), self.source.instruction(match.id)
        return tuple(dict.fromkeys(bodies.changed_inside(*both)))

    def _is_same(self, mine: int, other: int) -> bool:
        return self._subject.instruction(mine).name == self.source.instruction(other).name

    def _inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by the other program's names, and in its layout."""
        wanted = self.source.parameters
        found: dict[str, Any] = {}
        for mine in self._subject.main.parameters.values():
            match = self.matches.get(mine.id)
            name = self.source.instruction(match.id).parameter if match else None
            if name is not None and (own := mine.parameter or "") in inputs:
                found[name] = _in_layout(inputs[own], wanted[name])
        return completed_inputs(self.source, found)


class Named(Side):
    """Arrays by the names of the model's tensors, such as another tool's dump."""

    is_same_source = False

    def __init__(self, subject: Build, arrays: Mapping[str, Any]) -> None:
        """Find the tensors.

        Raises:
            InputError: No name is one of the model's tensors, or an array does not fit its tensor.
        """
        known = named_instructions(subject.source)
        self.unknown = tuple(name for name in arrays if name not in known)
        """Names that the model does not have."""
        if len(self.unknown) == len(arrays):
            first = next(iter(arrays), "")
            raise InputError(
                f"reference: none of {len(arrays)} names is a tensor of the model"
                + (f"; {first!r} is not{similar(first, known)}" if arrays else ""),
            )
        self._arrays = {name: arrays[name] for name in arrays if name in known}
        self._at = {name: known[name] for name in self._arrays}

    def capture(
        self, inputs: Mapping[str, Any], values: Values, progress: bool | None
    ) -> dict[int, Counterpart]:
        """Keeps the arrays."""
        for name, array in self._arrays.items():
            values["named", name] = as_numbers(name, array, self._at[name].shape)
        return {i.id: Counterpart(("named", n), n, "tensor", True) for n, i in self._at.items()}


def _is_large(program: Program) -> bool:
    """Whether runs take so long that two at once are faster than one after the other."""
    return any(total >= _LARGE for total in accumulate(work_of(i).flops for i in program.main))


def _is_run(instruction: Instruction) -> bool:
    """Whether a run tells the value of an instruction to a hook."""
    return not isinstance(instruction.op, Param | Return | Literal)


def first_counterpart(
    ids: Iterable[int], counterparts: Mapping[int, Counterpart]
) -> Counterpart | None:
    """The counterpart of the first of several equal instructions that has one."""
    return next((counterparts[id] for id in ids if id in counterparts), None)


def keys_of(
    source: Mapping[int, Iterable[int]], counterparts: Mapping[int, Counterpart]
) -> dict[int, Any]:
    """The key of the counterpart of each compiled instruction, by its id.

    Args:
        source: The source's instructions that each compiled one equals, by id.
        counterparts: Those of the source's instructions, by id.
    """
    pairs = ((i, first_counterpart(ids, counterparts)) for i, ids in source.items())
    return {i: found.key for i, found in pairs if found is not None}


def side_of(
    reference: Any, subject: Build, inputs: Mapping[str, Any], float64: bool, model: Any = None
) -> Side:
    """The reference side for what a caller gave as the reference.

    Args:
        reference: What the caller gave.
        subject: What is compared.
        inputs: The subject's inputs.
        float64: Compute the reference's floats in float64, if it is computed here.
        model: The model for onnxruntime: a path, bytes or a ModelProto.

    Raises:
        OperationError: It is nothing that can be compared with.
        InputError: Named arrays do not fit the model.
    """
    if isinstance(reference, str) and _is_target(reference):
        other = None if reference == "ref" else compile(subject.source, target=reference)
        return Same(subject, other, float64)
    if isinstance(reference, Mapping):
        return Named(subject, reference)  # pyright: ignore[reportUnknownArgumentType]
    is_path = isinstance(reference, str | Path)
    if reference == ONNXRUNTIME or (is_path and Path(reference).suffix == ".npz"):
        arrays = named_values(reference, subject.source, inputs, model=model, skip_unknown=True)
        return Named(subject, arrays)
    if isinstance(reference, str | Path):
        reference = as_program(reference)
    if is_module(reference):
        return Named(subject, module_results(reference, inputs))
    if not isinstance(reference, Build | Program):
        raise OperationError(
            "compare: expected as the reference a target, a build, a program, a model's file, or arrays "
            f"by the names of tensors; found {type(reference).__name__}"
        )
    source = reference.source if isinstance(reference, Build) else reference
    if source is subject.source:
        other = reference if isinstance(reference, Build) else None
        return Same(subject, other and other.specialised(inputs), float64)
    return Another(subject, reference, float64)


def _is_target(reference: str) -> bool:
    """Whether a text names a target, or at least no file."""
    path = Path(reference)
    is_file = bool(path.suffix) or path.exists() or reference == ONNXRUNTIME
    return reference in all_targets() or not is_file


def as_program(given: Program | str | Path) -> Program:
    """A program as it is, or the one of a model's file: ONNX, TensorFlow, or one of the workbench's own.

    Raises:
        OperationError: It is neither.
        ModelError: The file cannot be read.
    """
    if isinstance(given, Program):
        return given
    if not isinstance(given, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OperationError(
            f"compare: expected a build, a program or a model's file; found {type(given).__name__}"
        )
    return read_model(given)


def _run(
    build: Build | None,
    source: Program,
    inputs: Mapping[str, Any],
    float64: bool,
    values: Values,
    progress: bool | None,
    wanted: set[int],
) -> tuple[dict[int, int], dict[int, str]]:
    """Keeps the values of the source's instructions that are wanted.

    Returns:
        The instruction that computed each, by the source's id; and the printed names of all.
    """
    at = {id: id for id in wanted}
    program = source
    if build is not None:
        program = build.program
        at = {id: i for i, ids in from_source(build).items() for id in ids if id in wanted}
    kept, ran = set(at.values()), set[int]()

    def keep(instruction: Instruction, value: Value, _: Sequence[Value]) -> None:
        if instruction.id in kept:
            values[instruction.id] = value
            ran.add(instruction.id)

    if build is None:
        Interpreter(source, float64).run(inputs, hook=keep, progress=progress)
    else:
        build.evaluator(float64).run(inputs, hook=keep, progress=progress)
    return {id: i for id, i in at.items() if i in ran}, names(program)


def _in_layout(array: Any, shape: Shape) -> Any:
    """An array with its axes in the order of a shape: channels first or last."""
    if not shape.is_tensor or shape.is_dynamic or array.shape == shape.lens or array.ndim != 4:
        return array
    turned = [array.transpose(p) for p in _LAYOUTS]
    return next((x for x in turned if x.shape == shape.lens), array)
