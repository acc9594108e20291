"""Operations of a graph: a name, attributes, and one meaning that gives shapes and programs alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.compat.aitemplate.element_types import name_of, type_of
from workbench.compat.aitemplate.frontend.lengths import IntImm, IntVar, Point, points
from workbench.compat.aitemplate.frontend.tensor import OWN, Tensor
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.expressions.location import Location, location_outside
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program


class Lengths:
    """Lengths of variables while a meaning runs: numbers for shapes, values for programs."""

    def __init__(
        self, builder: ModuleBuilder, number: Callable[[IntVar], int | None],
        value: Callable[[IntVar], Value] | None = None,
    ) -> None:  # fmt: skip
        """Lengths by functions.

        Args:
            builder: Where a meaning appends instructions.
            number: The number that a length is; None if only a run knows it.
            value: The value of a length that only a run knows.
        """
        self.builder = builder
        self.number = number
        self._value = value

    def value(self, length: IntVar) -> Value:
        """A length as an int64 value of shape (1,)."""
        number = self.number(length)
        if number is not None or self._value is None:
            return self.builder.constant([number], DType.INT64)
        return self._value(length)


class Operator:
    """One operation. A class gives its meaning; a call adds it to a graph."""

    def __init__(self, **attributes: Any) -> None:
        """An operation that has not been called.

        Args:
            **attributes: Its attributes.
        """
        self._attrs: dict[str, Any] = {
            "op": type(self).__name__, "name": None, "original_name": None, "depth": 0, "nop": False,
            "has_profiler": False, "inputs": [], "outputs": [], **attributes,
        }  # fmt: skip
        self.location: Location | None = None
        self._known: dict[tuple[tuple[str, int], ...], list[tuple[int, ...]]] = {}
        self._types: list[DType] = []

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that it takes."""
        return self._attrs["inputs"]

    @property
    def name(self) -> str:
        """The kind of operation, such as ``gemm_rcr``."""
        return self._attrs["op"]

    def meaning(self, at: Lengths, *values: Value) -> Value | Sequence[Value]:
        """The results, for values of the inputs."""
        raise NotImplementedError(f"{self.name} has no meaning")

    def lengths(self) -> Sequence[IntVar]:
        """The lengths among its attributes."""
        return ()

    def variables(self) -> dict[str, IntVar]:
        """The free variables of its attributes."""
        found = dict[str, IntVar]()
        for n in self.lengths():
            found |= n.variables()
        return found

    def fail(self, message: str) -> ValueError:
        """An error to raise that names the operation and its line."""
        where = f" ({self.location.node.name})" if self.location is not None else ""
        return ValueError(f"{self.name}: {message}{where}")

    def record(self, *inputs: Tensor, outputs: int = 1) -> Tensor:
        """Add the operation to a graph; the first of its outputs.

        Args:
            *inputs: The tensors that it takes.
            outputs: The number of its results.

        Raises:
            ValueError: It was called before, an input is not a tensor, or the meaning refuses the inputs.
        """
        self.location = location_outside(OWN)
        if self._attrs["outputs"]:
            raise self.fail("was called before; make an operation for each call")
        for k, given in enumerate(inputs):
            if not isinstance(given, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
                raise self.fail(f"input {k} is {given!r}; expected a Tensor")
        self._attrs["inputs"] = list(inputs)
        self._attrs["depth"] = max((t._attrs["depth"] for t in inputs), default=-1) + 1  # pyright: ignore[reportPrivateUsage]
        self._attrs["outputs"] = self._made(outputs)
        for t in inputs:
            t.dst_ops().add(self)
        return self._attrs["outputs"][0]

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors that it makes."""
        return self._attrs["outputs"]

    def _made(self, outputs: int) -> list[Tensor]:
        free = self.variables()
        for t in self.inputs:
            free |= t.variables()
        samples = points(free)
        found = [self.lens_at(p) for p in samples]
        if len(found[0]) != outputs:
            raise self.fail(f"{len(found[0])} results; expected {outputs}")
        made = list[Tensor]()
        for k, type in enumerate(self._types):
            tensor = Tensor([], src_ops={self}, dtype=name_of(type))
            tensor.output = k
            lens = zip(*[f[k] for f in found], strict=True)
            shape = [self._length(tensor, a, n, free, samples) for a, n in enumerate(lens)]
            tensor._attrs.update(shape=shape, depth=self._attrs["depth"] + 1)  # pyright: ignore[reportPrivateUsage]
            made.append(tensor)
        return made

    def _length(
        self, tensor: Tensor, axis: int, lens: tuple[int, ...], free: dict[str, IntVar],
        samples: list[dict[str, int]],
    ) -> IntVar:  # fmt: skip
        """The length of an axis from its lengths at the points: fixed, one of the inputs', or a new one."""
        if len(set(lens)) == 1:
            return IntImm(lens[0])
        given = [n for t in self.inputs for n in t.shape()]
        for known in (*free.values(), *self.lengths(), *given):
            if not known.is_fixed and lens == tuple(known.at(p) for p in samples):
                return known
        most = self.lens_at({k: v.upper_bound() for k, v in free.items()})[tensor.output][axis]
        empty = any(v.lower_bound() == 0 for v in free.values())
        made = IntVar([0, most] if empty else [min(lens), max(lens)])
        made.origin = tensor, axis
        return made

    def lens_at(self, point: Point) -> list[tuple[int, ...]]:
        """The lengths of the results for given lengths of the free variables.

        Raises:
            ValueError: The meaning refuses them.
        """
        mine = self.variables()
        for t in self.inputs:
            mine |= t.variables()
        key = tuple(sorted((k, point[k]) for k in mine))
        if key not in self._known:
            self._known[key] = self._inferred(dict(key))
        return self._known[key]

    def _inferred(self, point: Point) -> list[tuple[int, ...]]:
        scratch = ModuleBuilder(Program().main)
        values = [
            scratch.input(f"x{k}", t.lens_at(point), type_of(t.dtype()))
            for k, t in enumerate(self.inputs)
        ]
        try:
            found = results(self.meaning(Lengths(scratch, lambda n: n.at(point)), *values))
        except WorkbenchError as error:
            given = ", ".join(map(repr, self.inputs))
            raise self.fail(f"of {given}: {error}") from error
        self._types = [v.dtype for v in found]
        return [tuple(v.instruction.shape.lens) for v in found]

    def __repr__(self) -> str:
        """The name, and those of inputs and outputs."""
        given, made = (", ".join(str(t.name) for t in ts) for ts in (self.inputs, self.outputs))
        return f"{self.name}({given}) -> ({made})"


def results(found: Value | Sequence[Value]) -> list[Value]:
    """The results of a meaning as a list."""
    return [found] if isinstance(found, Value) else list(found)
