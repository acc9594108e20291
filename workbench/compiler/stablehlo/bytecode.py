"""A program of its own: reads MLIR's bytecode from its standard input, and prints the module as text.

MLIR's reader of bytecode trusts what it reads: damage may end its process, or worse. So the bytecode of a
file is read by another process, and the text that this prints is read by the parser of texts. It imports
nothing of the workbench.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def new_context() -> Any:
    """A context of MLIR with the dialects that JAX writes."""
    ir = import_module("jaxlib.mlir.ir")
    registry = ir.DialectRegistry()
    import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for name in ("stablehlo", "chlo"):
        import_module(f"jaxlib.mlir.dialects.{name}").register_dialect(context)
    return context


def module_of(data: bytes, context: Any) -> Any:
    """The module of bytecode, plain or of a portable artifact.

    Raises:
        ValueError: The portable artifact is damaged.
        MLIRError: The bytecode is.
    """
    if b"StableHLO_" in data[:64]:
        dialect = import_module("jaxlib.mlir.dialects.stablehlo")
        return dialect.deserialize_portable_artifact(context, data)
    with context:
        return import_module("jaxlib.mlir.ir").Module.parse(data)


if __name__ == "__main__":
    _made = module_of(sys.stdin.buffer.read(), new_context())
    sys.stdout.write(_made.operation.get_asm(enable_debug_info=True))
