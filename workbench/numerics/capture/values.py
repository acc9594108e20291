"""Values of a normal run of a build, by instruction and by the model's names, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np

from workbench.compiler.builds.build import VALUE_BYTES, Build
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.builds.runner import NumPyRunner
from workbench.compiler.builds.why_not import Named, kernels_of
from workbench.compiler.errors import GraphError, InputError, OperationError, WorkbenchError
from workbench.compiler.ir.builtin import Literal, Param, Return
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.passes.fuse.kernels.pairs import behind_views, is_view
from workbench.compiler.report.result import kernel_sources, kernel_text
from workbench.compiler.run.inputs import check_inputs
from workbench.compiler.run.planned import PlannedInterpreter
from workbench.compiler.text.printing import names
from workbench.numerics.capture.store import ValueStore, read_only
from workbench.numerics.capture.tensor_names import tensor, tensors
from workbench.numerics.metrics.statistics import histogram_of, statistics_of

if TYPE_CHECKING:
    from pandas import DataFrame

Keep = Callable[[Instruction, Any], None]
Columns = Mapping[str, Sequence[Any] | Array]
_HEAD = ("id", "name", "tensors", "kernel", "shape", "sources")
"""The columns of a table before those of the statistics."""


class Places:
    """The instructions of a build's main module, by id and by the names of the model."""

    def __init__(self, build: Build) -> None:
        """The places of a build for fixed lengths."""
        self.build = build
        self.names = names(build.program)
        """The printed name of every instruction, by id."""

    def find(self, given: Named) -> list[Instruction]:
        """The instructions of the main module that compute a value, in order.

        Args:
            given: An instruction of any step, its id, or the name of a tensor or a node of the model.

        Raises:
            GraphError: There is no such instruction or name, or the compiled program does not compute it.
            OperationError: The build was not recorded, so that only its own instructions are known.
        """
        id = self._id(given)
        own = self.build.program.find(id)
        if own is not None and self._is_open(own) and not isinstance(given, str):
            return [own]
        found = self._equal(id)
        if not found:
            raise GraphError(self._absence(given, id))
        return found

    @property
    def is_recorded(self) -> bool:
        """Whether the passes were recorded, so that the model's names can be followed through them."""
        return self.build.is_recorded

    @property
    def tensors(self) -> dict[str, list[Instruction]]:
        """The instructions that compute each tensor of the model, for those that are still computed."""
        known = {name: self._equal(i.id) for name, i in tensors(self.build.source).items()}
        return {name: found for name, found in known.items() if found}

    def _id(self, given: object) -> int:
        if isinstance(given, str):
            return tensor(self.build.source, given).id
        if isinstance(given, Instruction):
            return given.id
        if isinstance(given, SupportsIndex) and not isinstance(given, bool):
            return index(given)
        kind = type(given).__name__
        raise InputError(f"a value is named by a {kind}; expected an instruction, its id or a name")

    def _equal(self, id: int) -> list[Instruction]:
        program = self.build.program
        same = [program.find(e) for e in self.build.recording.relations.equals(id)]
        return sorted(
            (i for i in same if i is not None and self._is_open(i)), key=lambda i: i.order
        )

    def _is_open(self, instruction: Instruction) -> bool:
        is_main = instruction.module is self.build.program.main
        return is_main and not isinstance(instruction.op, Return)

    def _absence(self, given: Named, id: int) -> str:
        """The reason why a value is not computed by itself."""
        shown = repr(given) if isinstance(given, str) else f"#{id}"
        kernels, reason = kernels_of(self.build, id)
        if not kernels:
            return f"the compiled program does not compute {shown}: {reason}"
        same = map(self.build.program.find, self.build.recording.relations.equals(id))
        fate = "is computed inside a kernel" if any(same) else "became part of other values"
        listed = ", ".join(f"{self.names[k.id]} {kernel_text(k)} (#{k.id})" for k in kernels)
        return (
            f"{shown} {fate} and has no memory of its own: {listed}; ask for the value of that, or compile "
            "without the passes that fuse, such as for target='ref'"
        )


class Values(Mapping[Any, Any]):
    """Values of one run: read-only arrays by instruction id, by tensor name, and by node name.

    Iteration gives the ids of what was captured, in the order of the run; parameters and literals are
    only found by their ids and names. A value that several instructions compute, such as one in half and its
    conversion to float, is the last of them when it is looked up by name.
    """

    def __init__(self, places: Places, store: ValueStore, inputs: Mapping[str, Any]) -> None:
        """The captured values in a store, by instruction id, and the inputs of the run."""
        self.places = places
        self.store = store
        self.inputs = inputs

    def __getitem__(self, key: Named) -> Any:
        """A value.

        Raises:
            GraphError: The compiled program does not compute it, or this run did not keep it.
        """
        found = self.places.find(key)
        known = [i for i in found if self._has(i)]
        if not known:
            raise GraphError(
                f"no value of {found[-1].name} #{found[-1].id} was kept: it was not asked for, or it has no "
                f"memory on {self.places.build.runner.name}"
            )
        return self._value(known[-1])

    def _has(self, instruction: Instruction) -> bool:
        given = instruction.literal is not None or instruction.parameter is not None
        return given or instruction.id in self.store

    def _value(self, instruction: Instruction) -> Any:
        if instruction.literal is not None:
            return read_only(instruction.literal.numpy())
        if instruction.parameter is not None:
            return read_only(self.inputs[instruction.parameter])
        return self.store[instruction.id]

    def __iter__(self) -> Iterator[int]:
        """The ids, in the order of the run."""
        return iter(self.store)

    def __len__(self) -> int:
        """The number of values."""
        return len(self.store)

    def __contains__(self, key: object) -> bool:
        """Whether there is a value for an id or a name; nothing is read."""
        try:
            found = self.places.find(cast("Named", key))
        except WorkbenchError:
            return False
        return any(map(self._has, found))

    @property
    def tensors(self) -> dict[str, int]:
        """The ids of the values by the names of the model's tensors, for those that are known."""
        found = {
            name: [i.id for i in at if self._has(i)] for name, at in self.places.tensors.items()
        }
        return {name: ids[-1] for name, ids in found.items() if ids}

    def close(self) -> None:
        """Forget the values and remove their files."""
        self.store.close()

    def __enter__(self) -> Values:
        """The values; they are closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the values."""
        self.close()

    def __repr__(self) -> str:
        """The number of values, and where they are."""
        return f"<Values of a run on {self.places.build.runner.name}; {self.store!r}>"


def show(build: Build, *args: Any, statistics: bool = False, **options: Any) -> Values | DataFrame:
    """The values of a build, or the table of their statistics, as ``Build.values`` describes."""
    if statistics:
        del options["budget"]
        return table(build, *args, **options)
    if options.pop("per_channel") is not None:
        raise OperationError("per_channel is for statistics=True; values themselves are whole")
    return capture(build, *args, **options)


def capture(
    build: Build,
    inputs: Mapping[str, Any] | None = None,
    which: Named | Iterable[Named] | None = None,
    *,
    budget: int = VALUE_BYTES,
    seed: int = 0,
    progress: bool | None = None,
) -> Values:
    """The values of a run; ``Build.values`` has the arguments and errors."""
    store = ValueStore(budget)

    def keep(instruction: Instruction, value: Any) -> None:
        store[instruction.id] = _copied(value)

    places, given = _run(build, inputs, which, keep, seed, progress)
    return Values(places, store, given)


def table(
    build: Build,
    inputs: Mapping[str, Any] | None = None,
    which: Named | Iterable[Named] | None = None,
    *,
    per_channel: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> DataFrame:
    """A row per value, or per index along an axis of each value that has this axis; no value is kept.

    ``Build.values`` has the arguments and errors, ``statistics_of`` the columns. Sequences, tuples of values
    and packed 4-bit floats are left out. With ``per_channel`` the index has a second level, ``channel``,
    which is −1 for the row of a value without that axis, and there are no histograms.
    """
    import pandas as pd  # noqa: PLC0415

    found: dict[Instruction, Columns] = {}

    def keep(instruction: Instruction, value: Any) -> None:
        if not isinstance(value, tuple) and instruction.shape.type.format.packed == 1:
            found[instruction] = _measured(np.asarray(value), per_channel)

    places, _ = _run(build, inputs, which, keep, seed, progress)
    tensors = _tensors_of(places)
    parts = [_about(i, places, tensors, columns) for i, columns in found.items()]
    keys = [*_HEAD, *_measured(np.zeros(1), per_channel)]
    whole = {key: [x for part in parts for x in part[key]] for key in keys}
    levels = ["id"] if per_channel is None else ["id", "channel"]
    return pd.DataFrame(whole, columns=pd.Index(keys)).set_index(levels)


def _measured(value: Array, axis: int | None) -> Columns:
    """The statistics of a value, with an element per channel in each column."""
    if axis is None:
        return {**statistics_of(value), "histogram": [histogram_of(value)]}
    fits = -value.ndim <= axis < value.ndim
    channels = range(value.shape[axis]) if fits else [-1]
    return {"channel": list(channels), **statistics_of(value, axis if fits else None)}


def _about(
    instruction: Instruction, places: Places, tensors: Mapping[int, list[str]], columns: Columns
) -> Columns:
    """The columns of a value: its names here and in the model, kernel, shape, source nodes, statistics."""
    known: tuple[object, ...] = (
        instruction.id,
        places.names[instruction.id],
        ", ".join(tensors.get(instruction.id, [])),
        kernel_text(instruction),
        str(instruction.shape),
        ", ".join(kernel_sources(instruction)),
    )
    length = len(columns["count"])
    return {key: [x] * length for key, x in zip(_HEAD, known, strict=True)} | dict(columns)


def _tensors_of(places: Places) -> dict[int, list[str]]:
    """The names of the model's tensors by id; none if the build was not recorded."""
    found: dict[int, list[str]] = {}
    for name, instructions in places.tensors.items() if places.is_recorded else ():
        for instruction in instructions:
            found.setdefault(instruction.id, []).append(name)
    return found


def _run(
    build: Build,
    inputs: Mapping[str, Any] | None,
    which: Named | Iterable[Named] | None,
    keep: Keep,
    seed: int,
    progress: bool | None,
) -> tuple[Places, dict[str, Any]]:
    """Run a build and hand over the values; returns the places in the build that ran, and the inputs."""
    given = completed_inputs(build.program, inputs, seed)
    build = build.specialised(given)
    places = Places(build)
    wanted = _wanted(places, which)
    checked: dict[str, Any] = check_inputs(build.program, given)
    views = _views(build, wanted)

    def tell(instruction: Instruction, value: Any, _: object = None) -> None:
        if instruction.id in wanted:
            keep(instruction, value)
        for view in views.get(instruction, ()):
            keep(view, _seen(view, instruction, value))

    for instruction in build.program.main:
        if instruction.literal is not None:
            tell(instruction, instruction.literal.numpy())
        elif instruction.parameter is not None:
            tell(instruction, checked[instruction.parameter])
    build.evaluator().run(given, hook=tell, progress=progress)
    return places, checked


def _views(build: Build, wanted: Mapping[int, Instruction]) -> dict[Instruction, list[Instruction]]:
    """The wanted views by the value behind them; a device has no step for these, which NumPy computes."""
    found: dict[Instruction, list[Instruction]] = {}
    if not isinstance(build.evaluator(), NumPyRunner):
        for view in filter(is_view, wanted.values()):
            found.setdefault(behind_views(view), []).append(view)
    return found


def _seen(view: Instruction, behind: Instruction, value: Any) -> Any:
    """The value of a view, given the value behind it."""
    chain = [view]
    while chain[-1].inputs[0] is not behind:
        chain.append(chain[-1].inputs[0])
    interpreter = PlannedInterpreter(view.module.program)
    for one in reversed(chain):
        value = interpreter.step(one, {one.inputs[0].id: value})
    return value


def _wanted(places: Places, which: Named | Iterable[Named] | None) -> dict[int, Instruction]:
    """The instructions whose values are asked for, by id; by default those that compute something."""
    if which is None:
        main = places.build.program.main
        return {i.id: i for i in main if not isinstance(i.op, Return | Literal | Param)}
    several = isinstance(which, Iterable) and not isinstance(which, str)
    each = cast("Iterable[Named]", which if several else [which])
    return {i.id: i for one in each for i in places.find(one)}


def _copied(value: Any) -> Any:
    """A copy of a value: its memory may be that of a later one, or of the caller's input."""
    if isinstance(value, tuple):
        return tuple(map(_copied, cast("tuple[Any, ...]", value)))
    return np.array(value, order="K")
