"""Quantization of programs in place; the calibration is kept as ``program.calibration``."""

from __future__ import annotations

import warnings
from typing import Any

from workbench.compat.migraphx.arguments import as_argument
from workbench.compat.migraphx.errors import Error, bound
from workbench.compat.migraphx.programs import program
from workbench.compat.migraphx.targets import target
from workbench.compiler.passes.base import run_pass
from workbench.compiler.passes.precision.autocast_fp8 import AutocastFp8
from workbench.numerics.precision.quantize import quantize_in_place

_ALL = ["all"]
_INT8 = {"dot", "convolution"}


@bound
def quantize_fp16(prog: program, ins_names: list[str] = _ALL) -> None:
    """Compute floats in half, in place.

    Args:
        prog: The program.
        ins_names: Names of the operations to quantize, or ``all``.
    """
    _warn_of_unused(prog, ins_names)
    prog.calibration = quantize_in_place(prog.core, "fp16", ins_names=ins_names)


@bound
def quantize_bf16(prog: program, ins_names: list[str] = _ALL) -> None:
    """Compute floats in bfloat16, in place.

    Args:
        prog: The program.
        ins_names: Names of the operations to quantize, or ``all``.
    """
    _warn_of_unused(prog, ins_names)
    prog.calibration = quantize_in_place(prog.core, "bf16", ins_names=ins_names)


def _warn_of_unused(prog: program, ins_names: list[str]) -> None:
    """Warn of names that no operation of the program has; MIGraphX ignores them."""
    known = {"all", *[i.name for i in prog.core.instructions]}
    if unused := [name for name in ins_names if name not in known]:
        warnings.warn(
            f"no instruction is called {', '.join(map(repr, unused))}; the program has "
            f"{', '.join(sorted(n for n in known if n[0] != '@' and n != 'all'))}",
            stacklevel=4,
        )


@bound
def quantize_int8(
    prog: program,
    t: target,
    calibration: list[dict[str, Any]] = [],
    ins_names: set[str] = _INT8,
) -> None:
    """Quantize the arguments of products and convolutions to int8, in place, by their range.

    Args:
        prog: The program.
        t: The target that runs the program on the calibration data.
        calibration: Buffers by parameter name, a dict for each run. Parameters that one leaves out are
            zeros. Without calibration data, all scales are 1/64.
        ins_names: No other set of operations is supported.

    Raises:
        Error: ``ins_names`` has other operations, or the data do not fit the parameters.
    """
    if ins_names != _INT8:
        found = ", ".join(sorted(ins_names)) or "none"
        raise Error(
            "QUANTIZE_INT8: only support DOT and CONVOLUTION operation: ins_names is "
            f"{{{found}}}; expected exactly {{convolution, dot}}"
        )
    sets = _values(prog, calibration)
    prog.calibration = quantize_in_place(prog.core, "int8", sets, target=t.core_name)


@bound
def quantize_fp8(
    prog: program,
    t: target,
    calibration: list[dict[str, Any]] = [],
) -> None:
    """Quantize the arguments of all operations to ``fp8e4m3fn``, in place, by their range.

    Args:
        prog: The program.
        t: The target that runs the program on the calibration data.
        calibration: Buffers by parameter name, a dict for each run. Parameters that one leaves out are
            zeros. Without calibration data, all scales are 1/64.

    Raises:
        Error: The data do not fit the parameters.
    """
    sets = _values(prog, calibration)
    prog.calibration = quantize_in_place(prog.core, "fp8", sets, target=t.core_name)


@bound
def quantize_int4(prog: program) -> None:
    """Pack the constant operands of products and convolutions into four bits, in place.

    MIGraphX has this only in C++, as ``quantize_int4_weights``.
    """
    prog.calibration = quantize_in_place(prog.core, "int4")


@bound
def autocast_fp8(prog: program) -> None:
    """Make fp8 parameters and results float, with conversions in the program, in place."""
    run_pass(AutocastFp8(), prog.core)


def _values(prog: program, calibration: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The inputs for the core from each set of buffers; warns about parameters that a set leaves out."""
    for i, given in enumerate(calibration):
        missing = [k for k in prog.core.parameters if k not in given]
        if missing:
            found = ", ".join(given) or "none"
            warnings.warn(
                f"calibration[{i}] has no {', '.join(missing)}: zeros stand in; it has {found}",
                UserWarning,
                stacklevel=4,
            )
    return [
        {name: as_argument(v, f"calibration[{i}][{name!r}]").value for name, v in given.items()}
        for i, given in enumerate(calibration)
    ]
