"""Control flow: branches, loops, calls of other modules, and access to their tuples of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import EvaluationError, ShapeError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Evaluate,
    Family,
    Operation,
    Sample,
    expect_count,
    expect_static,
    normalize_axes,
    operation,
)
from workbench.compiler.ir.ranges import (
    ONE,
    dims_of,
    expect,
    expect_integers,
    expect_tensors,
    joined,
    ranged,
    unnamed,
)
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.shape_rules import PLAIN, ShapeRules
from workbench.compiler.ops.fused import bind, call, expect_modules, infer_body

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Module

OUTPUT_PREFIX = "#output_"
"""Prefix of the name of a module parameter that is a buffer for a result."""


def _shapes(module: Module) -> list[Shape]:
    """Row-major shapes of a module's results, as a rewrite inside may change their layout."""
    return [_row_major(o.shape) for o in module.outputs]


def _row_major(shape: Shape) -> Shape:
    kept = not shape.is_tensor or shape.is_dynamic or shape.elements == 1
    return shape if kept else shape.as_standard()


@operation
class If(Operation):
    """The results of the first module if the condition is non-zero, else of the second.

    The other inputs bind to the union of both modules' parameters, sorted by name.
    """

    name = "if"
    on_host = "the host reads the condition"
    family = Family.CONTROL
    takes_modules = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The tuple of the modules' results; ranges where their lengths differ."""
        expect_modules(self, modules, 2)
        names = _union(modules)
        if len(inputs) != len(names) + 1:
            raise ShapeError(
                f"if: expected a condition and inputs for {', '.join(names) or 'no parameters'}; "
                f"found {len(inputs)} inputs"
            )
        then, otherwise = map(_shapes, modules)
        found = f"{Shape.tuple_of(then)} and {Shape.tuple_of(otherwise)}"
        if len(then) != len(otherwise):
            raise ShapeError(f"if: the modules return {found} results; expected equal numbers")
        try:
            return Shape.tuple_of(map(joined, then, otherwise))
        except ShapeError as error:
            raise ShapeError(f"if: the modules return {found}: {error}") from error

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The results of the selected module."""
        chosen = modules[0] if _truth(self, inputs[0]) else modules[1]
        bound = dict(zip(_union(modules), inputs[1:], strict=True))
        return tuple(call(evaluate, chosen, bound))


def _union(modules: Sequence[Module]) -> list[str]:
    return sorted({name for m in modules for name in m.parameters})


def _truth(op: Operation, condition: Any) -> bool:
    if condition.size != 1:
        raise EvaluationError(f"{op.name}: expected one condition, found {condition.size}")
    return bool(condition.reshape(-1)[0])


@operation
class Call(Operation):
    """The results of a module, which other instructions may call too.

    Inputs bind to its parameters in the order in which these were created.
    """

    name = "call"
    on_host = "the pass inline_calls replaces it where kernels are made"
    family = Family.CONTROL
    takes_modules = True
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The tuple of the module's results."""
        return self.shape_by(PLAIN, inputs, modules)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The tuple of the module's results, by the same rules."""
        expect_modules(self, modules, 1)
        parameters = modules[0].parameters
        if len(parameters) != len(inputs):
            raise ShapeError(
                f"call: module {modules[0].name!r} has {len(parameters)} parameters "
                f"({', '.join(parameters)}); found {len(inputs)} inputs"
            )
        for (name, parameter), given in zip(parameters.items(), inputs, strict=True):
            if given.type is not parameter.shape.type or given.lens != parameter.shape.lens:
                raise ShapeError(
                    f"call: module {modules[0].name!r} takes {name!r} as {parameter.shape}; found {given}"
                )
        return Shape.tuple_of(
            infer_body(modules[0], dict(zip(parameters, inputs, strict=True)), rules=rules)
        )

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The module's results."""
        return tuple(evaluate(modules[0], list(inputs)))


@operation
class Loop(Operation):
    """Repeats a module until an iteration count is reached or a condition is false.

    Inputs are the count, the condition, then values carried from one iteration to the next. The
    module takes (iteration, condition, values…), in the order in which its parameters were created,
    and returns (condition, values…, scans…). The results are the final values, then the scans of all
    iterations, stacked.
    """

    name = "loop"
    on_host = "the host counts the iterations, or its module needs the host"
    family = Family.CONTROL
    takes_modules = True
    max_iterations: int = 10
    scan_output_directions: tuple[int, ...] = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The carried values, then each scan with ``max_iterations`` as its leading dimension."""
        expect_modules(self, modules, 1)
        body = modules[0]
        if len(inputs) < 2 or len(body.parameters) != len(inputs):
            raise ShapeError(
                f"loop: module {body.name!r} has {len(body.parameters)} parameters and there are "
                f"{len(inputs)} inputs; expected equal numbers, at least two"
            )
        carried = len(inputs) - 2
        results = _shapes(body)
        if len(results) < carried + 1:
            raise ShapeError(
                f"loop: module {body.name!r} returns {len(results)} results; expected at least the "
                f"condition and {carried} carried values"
            )
        last = map(joined, results[1 : carried + 1], map(_row_major, inputs[2:]))
        return Shape.tuple_of([*last, *map(self._stacked_shape, results[carried + 1 :])])

    def _stacked_shape(self, scan: Shape) -> Shape:
        if not scan.is_tensor:
            raise ShapeError(f"loop: a scan of shape {scan}; expected a tensor")
        scan = unnamed(scan)
        rows = Dim(self.max_iterations, self.max_iterations)
        return ranged(scan.type, [rows, *dims_of(scan)])

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The carried values and scans after the last iteration; unused rows of scans are 0."""
        body = modules[0]
        count, condition, *carried = inputs
        limit = int(count.reshape(-1)[0])
        first = next(iter(body.parameters.values())).shape
        slots: list[list[Array]] = [[] for _ in _shapes(body)[len(carried) + 1 :]]
        for i in range(limit):
            if not _truth(self, condition):
                break
            if slots and i == self.max_iterations:
                raise EvaluationError(no_room(i))
            iteration = np.full(first.lens, i, first.type.numpy)
            condition, *results = evaluate(body, [iteration, condition, *carried])
            carried, scans = results[: len(carried)], results[len(carried) :]
            for slot, scan in zip(slots, scans, strict=True):
                slot.append(np.asarray(scan))
        shapes = _shapes(body)[len(carried) + 1 :]
        limit = min(limit, self.max_iterations)
        stacked = [self._stack(k, slots[k], s, limit) for k, s in enumerate(shapes)]
        return (*carried, *stacked)

    def _stack(self, index: int, rows: Sequence[Array], shape: Shape, limit: int) -> Array:
        dtype = rows[0].dtype if rows else shape.type.numpy
        lens = rows[0].shape if rows else [d.min for d in dims_of(shape)]
        result = np.zeros((self.max_iterations, *lens), dtype)
        backward = index < len(self.scan_output_directions) and self.scan_output_directions[index]
        for k, row in enumerate(rows):
            result[limit - 1 - k if backward else k] = row
        return result


def no_room(rows: int) -> str:
    """The message for a loop with more iterations than its scans have rows."""
    return (
        f"loop: more than {rows} iterations, for which its scans have no room; import the model with a "
        "larger max_loop_iterations"
    )


@operation
class GetTupleElem(Operation):
    """One value of a tuple."""

    name = "get_tuple_elem"
    family = Family.VIEW
    alias = 0
    dynamic = True
    index: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape of that value."""
        expect_count(self, inputs, 1)
        subs = inputs[0].subs
        if subs is None or inputs[0].kind or not 0 <= self.index < len(subs):
            raise ShapeError(
                f"get_tuple_elem: input 0 is {inputs[0]}; "
                f"expected a tuple with an element {self.index}"
            )
        return subs[self.index]

    def compute(self, *inputs: Any) -> Any:
        """That value."""
        return inputs[0][self.index]


@operation
class ScanSlice(Operation):
    """The slice of length 1 at an index along ``axis``; ``direction`` 1 counts from the end."""

    name = "scan_slice"
    family = Family.VIEW
    dynamic = True
    axes_of_input = ("axis",)
    axis: int = 0
    direction: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """Length 1 on the axis; the strides do not change."""
        expect_count(self, inputs, 2)
        expect_tensors(self, inputs)
        expect_static(self, inputs[1:])
        expect_integers(self, inputs, 1)
        expect(self, inputs[1].elements == 1, f"input 1 is {inputs[1]}; expected one position")
        op = normalize_axes(self, inputs)
        assert isinstance(op, ScanSlice)
        if inputs[0].dims is not None:
            dims = list(inputs[0].dims)
            if inputs[0].is_symbolic:
                dims[op.axis] = Dim.of(1)
                return Shape.dynamic(inputs[0].type, dims, inputs[0].dyn_strides)
            dims[op.axis] = ONE
            return ranged(inputs[0].type, dims)
        lens = list(inputs[0].lens)
        lens[op.axis] = 1
        return Shape(inputs[0].type, lens, inputs[0].strides)

    def compute(self, *inputs: Any) -> Array:
        """A view of the slice."""
        data, position = inputs[0], int(inputs[1].reshape(-1)[0])
        length = data.shape[self.axis]
        if not 0 <= position < length:
            raise EvaluationError(f"scan_slice: position {position}; expected 0 to {length - 1}")
        start = length - 1 - position if self.direction else position
        where = [slice(None)] * data.ndim
        where[self.axis] = slice(start, start + 1)
        return data[tuple(where)]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Both directions, along the first and the last axis."""
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        for axis, direction in ((0, 0), (0, 1), (1, 0), (-1, 1)):
            yield cls(axis, direction), [x, np.array([1], np.int64)]
        yield cls(1), [x.T, np.array([2], np.int64)]

    def gradient(self, given: Any, result: Any, *operands: Any) -> Sequence[Any]:
        """g in its place, with zeros around it."""
        x, position = operands
        axis = self.axis % x.ndim
        length = x.shape[axis]
        place = position.reshape([1] * x.ndim).astype("int64")
        lens = [length if a == axis else 1 for a in range(x.ndim)]
        at = given.builder.constant(np.arange(length).reshape(lens))
        here = at == (length - 1 - place if self.direction else place)
        return [given.broadcast_to(x.shape).where_true(here.broadcast_to(x.shape)), None]


@operation
class SelectModule(Operation):
    """Runs the first module whose parameters have exactly the shapes of the inputs.

    Parameters whose names begin with ``#output_`` are buffers for the results. If a module has
    them, the last input is the tuple of the buffers.
    """

    name = "select_module"
    not_differentiable = "only a run knows its lengths; fix them first"
    on_host = "the host chooses by the lengths of a run"
    family = Family.CONTROL
    takes_modules = True
    dynamic = True
    output_dyn_shapes: Shape = Shape.absent()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shape given by the attribute."""
        if not inputs or not modules:
            raise ShapeError("select_module: expected at least one input and one module")
        return self.output_dyn_shapes

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape given by the attribute; by strict rules there may be no modules."""
        if rules.strict:
            return self.output_dyn_shapes
        return super().shape_by(rules, inputs, modules)

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The results of the matching module."""
        for module in modules:
            if (bound := _fitted(module, inputs)) is not None:
                values = call(evaluate, module, bound)
                return tuple(values) if self.output_dyn_shapes.is_tuple else values[0]
        found = ", ".join(str(list(x.shape)) for x in inputs if not isinstance(x, tuple))
        raise EvaluationError(
            f"select_module: no module takes inputs of lens {found}; expected those of a module's parameters"
        )


def _fitted(module: Module, inputs: Sequence[Any]) -> dict[str, Any] | None:
    """The inputs by parameter name, or None if they do not fit the module."""
    buffers = sorted(n for n in module.parameters if n.startswith(OUTPUT_PREFIX))
    names = sorted(set(module.parameters) - set(buffers))
    data = inputs[:-1] if buffers else inputs
    if len(names) != len(data):
        return None
    if any(module.parameters[n].shape.lens != x.shape for n, x in zip(names, data, strict=True)):
        return None
    bound = dict(zip(names, data, strict=True))
    return bound | dict(zip(buffers, inputs[-1], strict=True)) if buffers else bound


@operation
class RunOnTarget(Operation):
    """Runs a module on another target; inputs bind to its parameters, sorted by name."""

    name = "run_on_target"
    not_differentiable = "another target runs its modules"
    on_host = "another target runs its modules"
    family = Family.CONTROL
    takes_modules = True
    target_id: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The tuple of the module's results."""
        return self.shape_by(PLAIN, inputs, modules)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The tuple of the module's results, by the same rules."""
        expect_modules(self, modules, 1)
        return Shape.tuple_of(infer_body(modules[0], bind(self, modules[0], inputs), rules=rules))

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The module's results."""
        return tuple(call(evaluate, modules[0], bind(self, modules[0], inputs)))
