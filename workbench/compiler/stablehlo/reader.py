"""Modules of StableHLO: text, MLIR's bytecode, portable artifacts, and what JAX lowers and exports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.stablehlo.installed import dialect, installed, mlir

MAX_BYTES = 1 << 31
"""The largest file that is read."""

MAX_DEPTH = 1_000
"""The deepest nesting of a text: MLIR's parser calls itself, and its stack is not checked."""

MAGIC = b"ML\xefR"
"""The first bytes of MLIR's bytecode."""

_STRINGS = re.compile(rb'"(?:\\.|[^"\\])*"|//[^\n]*|->', re.DOTALL)
_BRACKETS = re.compile(rb"[(\[{<]|[)\]}>]")


def parsed(source: Any) -> tuple[Any, str]:
    """The ``ir.Module`` of a source, and the name of its file.

    Args:
        source: The text of a module, its bytecode, a path, an ``ir.Module``, what ``jax.jit(f).lower(…)``
            gives, or a ``jax.export.Exported``.

    Raises:
        ModelError: jaxlib is missing, or the source is none of these or is damaged.
    """
    if hasattr(source, "compiler_ir"):
        return source.compiler_ir("stablehlo"), ""
    if hasattr(source, "mlir_module_serialized"):
        return of_bytes(bytes(source.mlir_module_serialized), "the exported function"), ""
    if hasattr(source, "operation") and hasattr(source, "body"):
        return source, ""
    if isinstance(source, bytes | bytearray):
        return of_bytes(bytes(source), "the module"), ""
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return of_bytes(source.encode(), "the text"), ""
    if isinstance(source, str | Path):
        return of_bytes(_read(Path(source)), Path(source).name), Path(source).name
    raise ModelError(
        f"a module of StableHLO from {type(source).__name__}; expected its text, its bytes, a path, what "
        "jax.jit(f).lower(...) gives, or a jax.export.Exported"
    )


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ModelError(f"{path.name}: {size:,} bytes; expected at most {MAX_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ModelError(f"cannot read {str(path)!r}: {reason}") from error


def of_bytes(data: bytes, what: str) -> Any:
    """The ``ir.Module`` of text or of bytecode.

    Raises:
        ModelError: jaxlib is missing, or the data is damaged or nested too deep.
    """
    ir, context = mlir(), new_context()
    is_bytecode = data.startswith(MAGIC)
    if not is_bytecode:
        expect_shallow(data, what)
    try:
        if is_bytecode and b"StableHLO_" in data[:64]:
            return dialect().deserialize_portable_artifact(context, data)
        with context:
            return ir.Module.parse(data if is_bytecode else data.decode())
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{what}: neither MLIR's bytecode nor text in UTF-8; of what Exported.serialize() "
            "gives, pass jax.export.deserialize(data)"
        ) from error
    except (ir.MLIRError, ValueError) as error:
        raise ModelError(f"{what}: {_shown(error)}") from error


def _shown(error: Exception) -> str:
    """MLIR's own message, which names the line, in at most a few lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:600].replace('"-":', "line ")


def expect_shallow(data: bytes, what: str) -> None:
    """Refuse a text that MLIR's parser would overflow its stack on.

    Raises:
        ModelError: Its brackets are nested too deep.
    """
    depth = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub(b"", data)):
        depth += 1 if bracket[0] in b"([{<" else -1
        if depth > MAX_DEPTH:
            raise ModelError(f"{what}: brackets nested {depth} deep; expected at most {MAX_DEPTH}")


def new_context() -> Any:
    """A context of MLIR with the dialects that JAX writes.

    Raises:
        ModelError: jaxlib is not installed.
    """
    ir = mlir()
    registry = ir.DialectRegistry()
    installed("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for name in ("stablehlo", "chlo"):
        installed(f"jaxlib.mlir.dialects.{name}").register_dialect(context)
    return context
