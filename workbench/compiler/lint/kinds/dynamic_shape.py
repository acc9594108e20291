"""Lengths that only a run knows."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.lint.finding import Cost, Finding, kind
from workbench.compiler.lint.subject import Subject


@kind("dynamic-shape")
def dynamic_shapes(subject: Subject) -> Iterator[Finding]:
    """A length is known only in a run: the model leaves it open in an input, or it follows from values.

    A device compiles kernels anew for each set of lengths, and keeps the last eight; memory is planned in
    each run; rules that need lengths decline. Fixed lengths avoid all of it.
    """
    for one in subject.open:
        if not one.shape.is_tensor or one.shape.dims is None or isinstance(one.op, Return):
            continue
        if one.parameter is not None:
            remedy = (
                "fix the lengths: parse_onnx(path, default_dim_value=1), or "
                f"parse_onnx(path, map_input_dims={{{one.parameter!r}: [...]}})"
            )
            said = f"its lengths are ranges, {one.shape}; {_behind(one)} follow from them"
            yield subject.finding("dynamic-shape", one, remedy, said, cost=Cost())
        elif one.inputs and not any(i.shape.is_dynamic for i in one.inputs):
            reason = f"its lengths depend on values, not on shapes: {one.shape}"
            remedy = "give the lengths as constants in the model, or pad the result to its largest length"
            yield subject.finding("dynamic-shape", one, remedy, reason, cost=Cost())


def _behind(parameter: Instruction) -> str:
    """The number of instructions whose lengths depend on a parameter's."""
    seen, stack = {parameter}, [parameter]
    while stack:
        users = [u for u in stack.pop().users if not isinstance(u.op, Return)]
        new = [u for u in users if u not in seen and u.shape.is_dynamic]
        seen.update(new)
        stack += new
    return f"those of {len(seen) - 1:,} instruction{'' if len(seen) == 2 else 's'}"
