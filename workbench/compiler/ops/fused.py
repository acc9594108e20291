"""Fused operations: a module of elementwise, reducing or other work that becomes one kernel.

A body's parameters bind to the inputs in the order of their names, sorted as strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compiler.errors import ShapeError
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.operation import (
    Evaluate,
    Family,
    Operation,
    expect_static,
    normalize_axis,
    operation,
)
from workbench.compiler.ir.shape import Shape, common_permutation, from_permutation, standard_shape
from workbench.compiler.ir.shape_rules import PLAIN, ShapeRules
from workbench.compiler.ops.elementwise import (
    divisible,
    expect_equal_dims,
    expect_same_dims,
    expect_tensors,
    in_blocks,
)

if TYPE_CHECKING:
    from workbench.compiler.ir.module import Instruction, Module

Values = list[Any]

_BODY_BLOCK = 1 << 15
_LONG_BODY = 10
"""The number of operations in a body from which its temporaries make blocks worthwhile (measured)."""


# Modules as functions


def expect_modules(op: Operation, modules: Sequence[Module], count: int) -> None:
    """Raise a ShapeError unless the operation has ``count`` modules."""
    if len(modules) != count:
        raise ShapeError(f"{op.name}: expected {count} modules, found {len(modules)}")


def bind(op: Operation, module: Module, inputs: Sequence[Any]) -> dict[str, Any]:
    """Inputs by the name of the parameter to which each binds.

    Raises:
        ShapeError: The number of inputs differs from the number of parameters.
    """
    names = sorted(module.parameters)
    if len(names) != len(inputs):
        raise ShapeError(
            f"{op.name}: module {module.name!r} has {len(names)} parameters ({', '.join(names)}); "
            f"found {len(inputs)} inputs"
        )
    return dict(zip(names, inputs, strict=True))


def call(evaluate: Evaluate, module: Module, bound: Mapping[str, Any]) -> Values:
    """The module's results for values by parameter name."""
    return list(evaluate(module, [bound[name] for name in module.parameters]))


def infer_body(
    module: Module,
    parameters: Mapping[str, Shape],
    lens: Shape | None = None,
    rules: ShapeRules = PLAIN,
) -> list[Shape]:
    """Shapes of a module's results for given shapes of its parameters.

    Args:
        module: The body.
        parameters: A shape for each parameter, by name.
        lens: If given, one-element literals count as scalars broadcast to this shape's lens.
        rules: The program's shape rules.
    """
    found: dict[Instruction, Shape] = {}
    for instruction in module:
        if (name := instruction.parameter) is not None:
            found[instruction] = parameters[name]
        elif instruction.literal is not None:
            found[instruction] = _spread(instruction.shape, lens)
        elif not isinstance(instruction.op, Return):
            shapes = [found.get(i, i.shape) for i in instruction.inputs]
            found[instruction] = instruction.op.shape_by(rules, shapes, instruction.modules)
    return [found.get(o, o.shape) for o in module.outputs]


def _spread(literal: Shape, over: Shape | None) -> Shape:
    if over is None or literal.elements != 1:
        return literal
    if over.dims is not None:
        strides = [0] * over.ndim if over.is_symbolic else None
        return Shape.dynamic(literal.type, over.dims, strides)
    return Shape(literal.type, over.lens, [0] * over.ndim)


def together(shapes: Sequence[Shape]) -> Shape:
    """The single shape, or the tuple of several."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)


def together_values(values: Sequence[Any]) -> Any:
    """The single value, or the tuple of several."""
    return values[0] if len(values) == 1 else tuple(values)


def body_flops(module: Module) -> int:
    """Floating-point operations of one evaluation of a module, for its parameters' own shapes."""
    return sum(_flops(i) for i in module)


def _flops(instruction: Instruction) -> int:
    inputs, op = [i.shape for i in instruction.inputs], instruction.op
    if isinstance(op, Fused):
        return op.flops(inputs, instruction.shape, instruction.modules)
    return op.flops(inputs, instruction.shape)


class Fused(Operation):
    """An operation defined by its body: one module (several for ``fused_concat``)."""

    takes_modules = True

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The body's results for the inputs."""
        return together_values(call(evaluate, modules[0], bind(self, modules[0], inputs)))

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[Module] = ()) -> int:
        """The arithmetic of the bodies."""
        return sum(map(body_flops, modules))


# Pointwise


@operation
class PointwiseModule(Fused):
    """Elementwise work: the body computes one element from one element of every input."""

    name = "pointwise"
    not_differentiable = "it is a fused kernel; differentiate the program before it is compiled"
    family = Family.POINTWISE
    dynamic = True

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The body's shape rules on the whole inputs; broadcast ones count as having the common layout."""
        return self.shape_by(PLAIN, inputs, modules)

    def shape_by(
        self, rules: ShapeRules, inputs: Sequence[Shape], modules: Sequence[Module] = ()
    ) -> Shape:
        """The shape, by the same rules for the body."""
        expect_modules(self, modules, 1)
        if not inputs:
            raise ShapeError("pointwise: expected at least one input")
        expect_tensors(self, inputs)
        expect_same_dims(self, inputs)
        if rules.strict:
            expect_equal_dims(self, inputs)
        bound = bind(self, modules[0], inputs)
        _expect_types(self, modules[0], bound)
        if _is_plain(modules[0], inputs):
            lens = inputs[0].lens
            return together([standard_shape(o.shape.type, lens) for o in modules[0].outputs])
        bound = dict(zip(bound, _settled(inputs), strict=True))
        return together(infer_body(modules[0], bound, inputs[0], rules))

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The body on whole arrays, or in blocks if that keeps temporaries in cache."""
        body = modules[0]
        order = [sorted(body.parameters).index(name) for name in body.parameters]

        def run(*parts: Array) -> Values:
            return evaluate(body, [parts[i] for i in order])

        work = sum(bool(i.inputs) for i in body) - body.has_return
        if work >= _LONG_BODY and len(body.outputs) == 1 and divisible(inputs):
            return in_blocks(lambda *parts: _whole(run(*parts), parts)[0], inputs, _BODY_BLOCK)
        return together_values(_whole(run(*inputs), inputs))

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[Module] = ()) -> int:
        """The arithmetic of the body for one element, times the elements."""
        elements = (output.subs[0] if output.subs else output).elements
        return elements * sum(map(body_flops, modules))


def _whole(results: Sequence[Any], inputs: Sequence[Array]) -> Values:
    """Results with the inputs' lens, even if the body returned one element for all."""
    lens = np.broadcast_shapes(*[x.shape for x in inputs])
    if not lens:  # one element, which a body of scalars may have with a dimension
        return [x.reshape(lens) for x in results]
    return [x if x.shape == lens else np.broadcast_to(x, lens) for x in results]


def _expect_types(op: Operation, module: Module, bound: Mapping[str, Shape]) -> None:
    for name, parameter in module.parameters.items():
        if parameter.shape.type is not bound[name].type:
            raise ShapeError(
                f"{op.name}: parameter {name!r} of module {module.name!r} is "
                f"{parameter.shape.type.type_name}, but its input is {bound[name]}"
            )


def _is_plain(body: Module, inputs: Sequence[Shape]) -> bool:
    """Whether results are row-major: all inputs are, or count as such, and there are no literals.

    This shortcut for ``infer_body`` covers most kernels, which are made often.
    """
    lens = inputs[0].lens
    if len(lens) < 2 or 0 in lens:
        return False
    strides = standard_shape(inputs[0].type, lens).strides
    for shape in inputs:
        if shape.dims is not None or (shape.strides != strides and not shape.broadcasted):
            return False
    return not any([i.literal for i in body])  # noqa: C419 (faster)


def _settled(inputs: Sequence[Shape]) -> Sequence[Shape]:
    """The inputs, with broadcast ones given the most common layout of the others."""
    known = all(s.dims is None or s.is_symbolic for s in inputs)
    if not known or inputs[0].ndim < 2 or not any(s.broadcasted for s in inputs):
        return inputs
    order = common_permutation(inputs)
    return [_permuted(s, order) if s.broadcasted else s for s in inputs]


def _permuted(shape: Shape, order: Sequence[int]) -> Shape:
    if shape.dims is not None:
        return from_permutation(shape.type, shape.dims, order)
    return Shape.permuted(shape.type, shape.lens, order)


# Bodies of whole tensors


@operation
class FusedReduce(Fused):
    """Reductions over ``axes`` with the elementwise work around them."""

    name = "fused_reduce"
    not_differentiable = "it is a fused kernel; differentiate the program before it is compiled"
    family = Family.REDUCE
    dynamic = True
    axes: tuple[int, ...] = ()

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The body's result, in the order of axes that most inputs have."""
        expect_modules(self, modules, 1)
        body = modules[0]
        if not body.bypass:
            raise ShapeError(
                f"fused_reduce: module {body.name!r} is not a body; expected bypass=True"
            )
        if not inputs or len(body.outputs) != 1:
            count = f"{len(inputs)} inputs and {len(body.outputs)} results"
            raise ShapeError(
                f"fused_reduce: found {count}; expected at least one input and one result"
            )
        _expect_fit(self, body, bind(self, body, inputs))
        if any(s.ndim != inputs[0].ndim for s in inputs):
            raise ShapeError("fused_reduce: expected inputs of one rank")
        result = body.outputs[0].shape
        if result.dims is not None:
            return result
        return Shape.permuted(result.type, result.lens, common_permutation(inputs))


def _expect_fit(op: Operation, module: Module, bound: Mapping[str, Shape]) -> None:
    """Raise a ShapeError unless each input has its parameter's type and lens."""
    for name, parameter in module.parameters.items():
        want, found = parameter.shape, bound[name]
        if (want.type, want.lens, want.dims) != (found.type, found.lens, found.dims):
            raise ShapeError(
                f"{op.name}: parameter {name!r} of module {module.name!r} is {want}, "
                f"but its input is {found}"
            )


class _Whole(Fused):
    """An operation whose shape is its body's, inferred again for the inputs' layouts."""

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The shapes of the body's results."""
        expect_modules(self, modules, 1)
        if not inputs:
            raise ShapeError(f"{self.name}: expected at least one input")
        expect_static(self, inputs)
        bound = bind(self, modules[0], inputs)
        _expect_fit(self, modules[0], bound)
        return together(infer_body(modules[0], bound))


@operation
class SplitFusedReduce(_Whole):
    """Large reductions over ``axes``, split among blocks whose partial results are combined."""

    name = "split_fused_reduce"
    not_differentiable = "it is a fused kernel; differentiate the program before it is compiled"
    family = Family.REDUCE
    axes: tuple[int, ...] = ()
    assign: str = "assign_none"


@operation
class Group(_Whole):
    """Instructions that become one kernel, such as attention; ``tag`` names the kind."""

    name = "group"
    not_differentiable = "it is a fused kernel; differentiate the program before it is compiled"
    family = Family.KERNEL
    tag: str = ""

    @property
    def is_attention(self) -> bool:
        """Whether it is attention, whose operands are read through any views."""
        return self.tag in ("attention", "kv_cache_attention")


@operation
class FusedConcat(Fused):
    """Elementwise work on pieces, their concatenation along ``axis``, and elementwise work on that.

    Every module but the last computes one piece from as many inputs as it has parameters. The last takes
    the concatenation as its first parameter (``!`` at the start of its name sorts it first), and the
    remaining inputs.
    """

    name = "fused_concat"
    not_differentiable = "it is a fused kernel; differentiate the program before it is compiled"
    family = Family.MOVEMENT
    axes_of_input = ("axis",)
    axis: int = 0

    def compute_shape(self, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
        """The lens of the concatenation, in the type of the last module's result."""
        expect_static(self, inputs)
        heads = [piece[0] for _, piece in self._pieces(inputs, modules)]
        axis = normalize_axis(self, self.axis, heads[0].ndim)
        for i, head in enumerate(heads):
            if _without(head.lens, axis) != _without(heads[0].lens, axis):
                raise ShapeError(
                    f"fused_concat: piece {i} is {head}; expected the lens of {heads[0]} "
                    f"on all axes except {axis}"
                )
        lens = list(heads[0].lens)
        lens[axis] = sum(h.lens[axis] for h in heads)
        type = modules[-1].outputs[0].shape.type
        return Shape.permuted(type, lens, common_permutation(heads))

    def compute_modules(self, evaluate: Evaluate, modules: Sequence[Module], *inputs: Any) -> Any:
        """The pieces, their concatenation, and the last module's result for it."""
        parts: Values = []
        for module, piece in self._pieces(inputs, modules):
            results = call(evaluate, module, bind(self, module, piece))
            parts += _whole(results, piece)
        whole = np.concatenate(parts, self.axis)
        rest = inputs[len(inputs) - len(modules[-1].parameters) + 1 :]
        bound = bind(self, modules[-1], [whole, *rest])
        return _whole(call(evaluate, modules[-1], bound), [whole])[0]

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[Module] = ()) -> int:
        """The arithmetic of each body for one element, times the elements."""
        pieces = self._pieces(inputs, modules)
        before = sum(piece[0].elements * body_flops(module) for module, piece in pieces)
        return before + output.elements * body_flops(modules[-1])

    def _pieces(
        self, inputs: Sequence[Any], modules: Sequence[Module]
    ) -> list[tuple[Module, Sequence[Any]]]:
        """Each module but the last, with its inputs."""
        counts = [len(m.parameters) for m in modules]
        if len(modules) < 2 or 0 in counts or sum(counts) - 1 != len(inputs):
            raise ShapeError(
                f"fused_concat: {len(inputs)} inputs for modules of {counts} parameters; expected "
                "one module per piece and one more, and one input for each parameter but one"
            )
        return list(_cut(inputs, modules[:-1]))


def _cut(
    inputs: Sequence[Any], modules: Sequence[Module]
) -> Iterator[tuple[Module, Sequence[Any]]]:
    start = 0
    for module in modules:
        end = start + len(module.parameters)
        yield module, inputs[start:end]
        start = end


def _without(lens: Sequence[int], axis: int) -> list[int]:
    return [n for i, n in enumerate(lens) if i != axis]
