"""Reads modules of StableHLO, as JAX writes them: ``from_jax`` and ``parse_stablehlo`` make Programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.program import Program
from workbench.compiler.stablehlo.context import Context
from workbench.compiler.stablehlo.importer import ModuleImporter
from workbench.compiler.stablehlo.installed import installed
from workbench.compiler.stablehlo.reader import parsed
from workbench.compiler.stablehlo.registry import operators, stablehlo_op

__all__ = ["Context", "FromJax", "from_jax", "operators", "parse_stablehlo", "stablehlo_op"]


class FromJax(Program):
    """A program made from a function of JAX."""

    def arguments(self, *arguments: Any, **keywords: Any) -> dict[str, Array]:
        """The inputs of a run, by parameter, from the arguments of the function, trees included.

        Raises:
            ModelError: The arguments have another number of leaves than the function was imported with.
        """
        numpy = installed("numpy")
        leaves = installed("jax").tree_util.tree_leaves((arguments, keywords))
        names = list(self.parameters)
        if len(leaves) != len(names):
            raise ModelError(
                f"{len(leaves)} leaves; expected {len(names)}: {', '.join(names)[:200]}"
            )
        given = zip(names, leaves, strict=True)
        return {n: numpy.asarray(v, self.parameters[n].type.numpy) for n, v in given}


def from_jax(function: Any, *example_arguments: Any, **example_keywords: Any) -> FromJax:
    """Import a function of JAX, lowered for arguments like the given ones.

    Arrays that the function closes over become literals; those that are arguments become parameters, with
    the names that JAX gives them, such as ``params['w']``. Functions that it calls are inlined.

    Args:
        function: A function, plain or of ``jax.jit``; a ``jax.stages.Lowered``; or a ``jax.export.Exported``.
        *example_arguments: Arguments with which it is traced, or ``jax.ShapeDtypeStruct`` in their place;
            none where it is lowered already.
        **example_keywords: Arguments by keyword.

    Raises:
        ModelError: jax is missing, the function cannot be traced, or an operation is not supported; the
            message names the operation, the path of names and the line of Python.

    Example::

        program = wb.from_jax(model.apply, params, jax.numpy.ones((1, 28, 28, 1)))
    """
    lowered = function
    if not hasattr(function, "compiler_ir") and not hasattr(function, "mlir_module_serialized"):
        lowered = _lowered(function, example_arguments, example_keywords)
    module, _ = parsed(lowered)
    program = FromJax(_name(module))
    ModuleImporter(module, program).run()
    return program


def _lowered(function: Any, arguments: Any, keywords: Any) -> Any:
    """The function as JAX lowers it for a CPU, whose operations no vendor's library stands for."""
    jax = installed("jax")
    jitted = function if hasattr(function, "trace") else jax.jit(function, keep_unused=True)
    try:
        return jitted.trace(*arguments, **keywords).lower(lowering_platforms=("cpu",))
    except Exception as error:  # whatever the user's code raises while it is traced
        raise ModelError(f"jax: {type(error).__name__}: {error}") from error


def _name(module: Any) -> str:
    """The name of a module: that of the function which JAX made it of."""
    attributes = module.operation.attributes
    return attributes["sym_name"].value.removeprefix("jit_") if "sym_name" in attributes else ""


def parse_stablehlo(source: str | bytes | Path | Any) -> Program:
    """Import a module of StableHLO.

    Args:
        source: Text of MLIR, its bytecode, a portable artifact (what ``jax.export`` serializes), the path of
            a file with any of these, or an ``ir.Module`` of jaxlib's bindings.

    Raises:
        ModelError: jaxlib is missing, or the module is damaged, hostile or has an operation that is not
            supported; the message names the operation and its place.
    """
    module, name = parsed(source)
    program = Program(name or _name(module))
    with module.context:
        return ModuleImporter(module, program).run()
