"""Operations with modules: fused ones as functions that are called, branches and loops as regions."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Module
from workbench.compiler.stablehlo.write.block import Block, write_call
from workbench.compiler.stablehlo.write.call import Call
from workbench.compiler.stablehlo.write.lines import Lines, Tensor
from workbench.compiler.stablehlo.write.registry import Written, writes


def _bound(module: Module, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Inputs by the parameters that they bind to, which are sorted by name."""
    return dict(zip(sorted(module.parameters), inputs, strict=True))


def _together(results: Sequence[Tensor]) -> Written:
    return results[0] if len(results) == 1 else tuple(results)


@writes("pointwise")
def pointwise(call: Call) -> Written:
    """A call of a function of whole values, element by element."""
    bound = _bound(call.modules[0], call.inputs)
    return _together(call.block.call(call.modules[0], bound, call.x.lens))


@writes("fused_reduce", "split_fused_reduce", "group", "run_on_target")
def fused(call: Call) -> Written:
    """A call of a function with the module's body."""
    found = call.block.call(call.modules[0], _bound(call.modules[0], call.inputs))
    return tuple(found) if call.shape.is_tuple else found[0]


@writes("call")
def called(call: Call) -> Written:
    """A call of a function, whose arguments are in the order of the module's parameters."""
    module = call.modules[0]
    return tuple(call.block.call(module, dict(zip(module.parameters, call.inputs, strict=True))))


@writes("fused_concat")
def fused_concat(call: Call) -> Tensor:
    """A function for each piece, their concatenation, and a function for the whole."""
    *pieces, last = call.modules
    rest = list(call.inputs)
    parts: list[Tensor] = []
    for module in pieces:
        count = len(module.parameters)
        given, rest = rest[:count], rest[count:]
        parts += call.block.call(module, _bound(module, given), given[0].lens)
    whole = call.to.concat(parts, call.op.axis)
    return call.block.call(last, _bound(last, [whole, *rest]), whole.lens)[0]


@writes("get_tuple_elem")
def get_tuple_elem(call: Call) -> Written:
    """One of the values of a tuple."""
    parts, index = call.values[0], int(call.op.index)
    assert not isinstance(parts, Tensor)  # as the shape rule has seen
    return parts[index]


@writes("write")
def write(call: Call) -> Written:
    """The result of the operation inside; the buffer is left out."""
    return write_call(Call(call.block, call.instruction, call.op.op, call.operands[:-1]))


# Branches and loops


def _single(to: Lines, value: Tensor, type: DType) -> Tensor:
    """A value of one element, as a scalar of a type."""
    return to.convert(to.reshape(value, ()), type)


def _plain(call: Call, results: Sequence[Written]) -> list[Tensor]:
    found = [r for r in results if isinstance(r, Tensor)]
    if len(found) < len(results):
        raise call.refuse("a result of its module is a tuple")
    return found


@writes("if")
def if_(call: Call) -> Written:
    """Two regions, which read the operands that the modules' parameters bind to."""
    names = sorted({name for m in call.modules for name in m.parameters})
    bound = dict(zip(names, call.inputs[1:], strict=True))
    condition = _single(call.to, call.inputs[0], DType.BOOL)
    outputs = [(s.type, s.array_lens) for s in call.shape.subs or ()]

    def region(module: Module) -> str:
        def fill(inner: Lines) -> Sequence[Tensor]:
            block = call.block.inner(inner)
            block.values.update((module.parameters[n], bound[n]) for n in module.parameters)
            return _plain(call, block.run(module))

        return call.to.body([], fill)

    regions = [region(m) for m in call.modules]
    return call.to.several("stablehlo.if", [condition], outputs, regions=regions)


class _Loop:
    """A loop: a counter, the condition, the carried values, and the rows of its scans so far."""

    def __init__(self, call: Call) -> None:
        to, self.call, self.module = call.to, call, call.modules[0]
        limit, condition, *carried = call.inputs
        self.limit = _single(to, limit, DType.INT64)
        self.first = _single(to, condition, DType.BOOL)
        self.carried = carried
        scans = (call.shape.subs or ())[len(carried) :]
        self.slots = [to.full(s.type, s.array_lens, 0) for s in scans]
        self.rows = to.add("minimum", self.limit, to.like(self.limit, call.op.max_iterations))

    def going(self, inner: Lines, number: Tensor, going: Tensor, *_: Tensor) -> Sequence[Tensor]:
        """Whether there is another iteration."""
        return [inner.add("and", inner.compare("LT", number, self.limit), going)]

    def next(self, inner: Lines, number: Tensor, _: Tensor, *state: Tensor) -> Sequence[Tensor]:
        """The state after an iteration."""
        count = len(self.carried)
        block = self.call.block.inner(inner)
        results = _plain(self.call, self._run(block, number, state[:count]))
        scans = [
            self._placed(inner, k, number, slot, row)
            for k, (slot, row) in enumerate(zip(state[count:], results[count + 1 :], strict=True))
        ]
        more = inner.add("add", number, inner.like(number, 1))
        kept = [
            inner.reshape(r, s.lens) for r, s in zip(results[1 : count + 1], state, strict=False)
        ]
        return [more, _single(inner, results[0], DType.BOOL), *kept, *scans]

    def _run(self, block: Block, number: Tensor, carried: Sequence[Tensor]) -> list[Written]:
        iteration, condition, *rest = self.module.parameters.values()
        shape = iteration.shape
        one = block.lines.reshape(block.lines.convert(number, shape.type), shape.array_lens)
        on = block.lines.full(condition.shape.type, condition.shape.array_lens, value=True)
        block.values.update({iteration: one, condition: on})
        block.values.update(zip(rest, carried, strict=True))
        return block.run(self.module)

    def _placed(
        self, inner: Lines, index: int, number: Tensor, slot: Tensor, row: Tensor
    ) -> Tensor:
        directions = self.call.op.scan_output_directions
        at = number
        if index < len(directions) and directions[index]:
            last = inner.add("subtract", self.rows, inner.like(number, 1))
            at = inner.add("subtract", last, number)
        zeros = [inner.like(number, 0) for _ in row.lens]
        shaped = inner.reshape(row, (1, *row.lens))
        return inner.add("dynamic_update_slice", slot, shaped, at, *zeros)


@writes("loop")
def loop(call: Call) -> Written:
    """A loop whose state has the number of the iteration and the rows of the scans."""
    at = _Loop(call)
    start = call.to.full(DType.INT64, (), 0)
    state = [start, at.first, *at.carried, *at.slots]
    types = [(s.type, s.lens) for s in state]
    regions = [call.to.body(types, at.going), call.to.body(types, at.next)]
    return call.to.several("stablehlo.while", state, types, regions=regions)[2:]
