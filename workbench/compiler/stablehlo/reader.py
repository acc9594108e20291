"""Modules of StableHLO: text, MLIR's bytecode, portable artifacts, and what JAX lowers and exports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.stablehlo import bytecode
from workbench.compiler.stablehlo.bytecode import module_of
from workbench.compiler.stablehlo.installed import mlir

MAX_BYTES = 1 << 31
"""The largest file that is read."""

MAX_DEPTH = 1_000
"""The deepest nesting of a text: MLIR's parser calls itself, and its stack is not checked."""

MAX_SECONDS = 300
"""The time that the reader of bytecode may take."""

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
        return _of_exported(bytes(source.mlir_module_serialized)), ""
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
    """The ``ir.Module`` of text or of bytecode, which another process reads.

    Raises:
        ModelError: jaxlib is missing, or the data is damaged or nested too deep.
    """
    ir, context = mlir(), new_context()
    text = _printed(data, what) if data.startswith(MAGIC) else data
    expect_shallow(text, what)
    try:
        with context:
            return ir.Module.parse(text.decode())
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{what}: neither MLIR's bytecode nor text in UTF-8; of what Exported.serialize() "
            "gives, pass jax.export.deserialize(data)"
        ) from error
    except (ir.MLIRError, ValueError) as error:
        raise ModelError(f"{what}: {_shown(error)}") from error


def _of_exported(data: bytes) -> Any:
    """The ``ir.Module`` of bytecode that JAX made in this process."""
    try:
        return module_of(data, new_context())
    except (mlir().MLIRError, ValueError) as error:
        raise ModelError(f"the exported function: {_shown(error)}") from error


def _printed(data: bytes, what: str) -> bytes:
    """The text of bytecode, which a process of its own prints, as damage may end it.

    Raises:
        ModelError: It ended with an error, or took too long.
    """
    command = [sys.executable, "-P", bytecode.__file__]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=MAX_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"{what}: MLIR did not read it within {MAX_SECONDS} seconds") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        wrong = [line for line in said if "error:" in line] or said[-1:]
        reason = wrong[0][:300] if wrong else f"its reader ended with {done.returncode}"
        raise ModelError(f"{what}: damaged bytecode: {reason}")
    return done.stdout


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
    mlir()
    return bytecode.new_context()
