"""Operations of CHLO without a handler, spelled out in StableHLO by the pass that jaxlib has for it."""

from __future__ import annotations

from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.stablehlo.installed import dialect, installed, mlir
from workbench.compiler.stablehlo.provenance import described
from workbench.compiler.stablehlo.reader import new_context

PASS = "builtin.module(func.func(chlo-legalize-to-stablehlo))"


class Legalized:
    """Functions for operations of CHLO, each made once."""

    def __init__(self) -> None:
        """None are made yet."""
        self._modules: dict[str, Any] = {}

    def block(self, op: Any) -> Any:
        """The body of a function that computes an operation, whose arguments are its operands.

        Raises:
            ModelError: jaxlib does not know how to spell it out.
        """
        text = _function(op)
        if text not in self._modules:
            self._modules[text] = _run(text, op)
        return self._modules[text].body.operations[0].regions[0].blocks[0]


def _function(op: Any) -> str:
    """A module with one function that applies an operation to its arguments."""
    types = [str(o.type) for o in op.operands]
    results = ", ".join(str(r.type) for r in op.results)
    names = [f"%a{k}" for k in range(len(types))]
    given = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    call = (
        f'"{op.name}"({", ".join(names)}) {_attributes(op)} : ({", ".join(types)}) -> ({results})'
    )
    count = len(op.results)
    returned = ", ".join(f"%r#{k}" for k in range(count)) if count > 1 else "%r"
    bound = f"%r:{count}" if count > 1 else "%r"
    return f"func.func @f({given}) -> ({results}) {{ {bound} = {call}\n return {returned} : {results} }}"


def _attributes(op: Any) -> str:
    """The attributes of an operation, as text."""
    names = [n if isinstance(n, str) else n.name for n in op.attributes]
    return "{" + ", ".join(f"{n} = {op.attributes[n]}" for n in names) + "}"


def _run(text: str, op: Any) -> Any:
    ir = mlir()
    dialect().register_stablehlo_passes()
    try:
        with new_context():
            module = ir.Module.parse(text)
            installed("jaxlib.mlir.passmanager").PassManager.parse(PASS).run(module.operation)
    except (ir.MLIRError, ValueError, RuntimeError) as error:
        raise ModelError(f"{described(op)}: jaxlib cannot spell it out: {error}"[:600]) from error
    if "chlo." in str(module):
        raise ModelError(f"{described(op)}: neither has it a handler, nor can jaxlib spell it out")
    return module
