"""The page of gradients: the derivative of each operation, or the reason why it has none."""

import inspect
from collections.abc import Callable

from workbench.compiler.ir.operation import OPERATIONS, Operation, all_operations
from workbench.compiler.passes.gradients.differentiate import control
from workbench.compiler.passes.gradients.reverse import propagate

assert control  # its import registers what the pass knows of modules
PASSED = {
    "@return": "what they return is what is differentiated",
    "get_tuple_elem": "g for that element of the tuple",
}
"""What the pass itself does, for operations that have no arithmetic."""


def derivative(name: str) -> str:
    """The gradient of an operation in one line, or the reason why it has none."""
    op = all_operations()[name]
    if op.flat:
        return "0: small changes of its operands do not change it"
    if op.not_differentiable:
        return f"none: {op.not_differentiable}"
    if name in PASSED:
        return PASSED[name]
    if op.gradient is not Operation.gradient:
        return _first_line(op.gradient)
    return _first_line(propagate.dispatch(op))


def _first_line(function: Callable[..., object]) -> str:
    text = inspect.getdoc(function)
    if not text:
        raise ValueError(f"{function} has no docstring; its first line says what it computes")
    return text.splitlines()[0].rstrip(".")


def page(link: Callable[[str], str], rows: Callable[..., str]) -> str:
    """The table of operations without gradient."""
    ours = sorted(n for n, op in OPERATIONS.items() if op.__module__.startswith("workbench."))
    flat = [n for n in ours if OPERATIONS[n].flat]
    without = [n for n in ours if OPERATIONS[n].not_differentiable]
    return (
        "# Operations without gradient\n\n"
        f"[Differentiation](../gradients.md) knows {len(ours) - len(without)} of {len(ours)} operations. It "
        "refuses these, by name, if what is asked for depends on them:\n\n"
        + rows(
            ("operation", "reason"), [(link(n), OPERATIONS[n].not_differentiable) for n in without]
        )
        + "\nThese are flat: small changes of their operands do not change their results, so that "
        f"gradients through them are 0. {', '.join(map(link, flat))}.\n"
    )
