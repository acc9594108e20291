"""``compile_model``: a graph checked, named, bound and lowered, and the model that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from workbench.compat.aitemplate.frontend.graph import (
    bind_constants,
    check_names,
    check_outputs,
    name_graph,
    toposort,
)
from workbench.compat.aitemplate.frontend.lowering import Lowering, internal_data
from workbench.compat.aitemplate.frontend.targets import workbench_name
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compat.aitemplate.model import Model
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.program import Program


class DynamicProfileStrategy(Enum):
    """Lengths for which AITemplate would choose kernels; the workbench compiles for those of a run."""

    MAX = 1
    MIN = 2
    HINTS = 3


@dataclass
class AITDebugSettings:
    """AITemplate's settings for debugging; none of them can be on here."""

    check_all_nan_and_inf: bool = False
    check_all_outputs: bool = False
    gen_profiler_annotation: bool = False
    dump_ait_to_py: str | None = None
    gen_standalone: bool = False


def _expect_no_checks(graph: Sequence[Tensor], settings: AITDebugSettings | None) -> None:
    """Refuse what AITemplate would print during runs.

    Raises:
        NotImplementedError: A setting or a tensor asks for it.
    """
    asked = [f"debug_settings.{k}" for k, v in vars(settings or AITDebugSettings()).items() if v]
    asked += [
        f"{flag} of tensor {t.name}"
        for t in graph
        for flag in ("check_nan_and_inf", "check_outputs")
        if t._attrs[flag]  # pyright: ignore[reportPrivateUsage]
    ]
    if asked:
        raise NotImplementedError(
            f"{', '.join(asked)}: not in this front end; mark tensors as outputs, or inspect the values of "
            "model.build.program with the workbench"
        )


@dataclass
class Lowered:
    """A graph as a program, and what a model has to know about its parameters."""

    program: Program
    graph: list[Tensor]
    outputs: list[str]
    """The names of the outputs, in the order of their numbers."""
    bound: dict[str, Array] = field(default_factory=dict[str, Array])
    """The data of bound constants."""
    unbound: list[str] = field(default_factory=list[str])
    """Constants that are set before the first run."""
    internal: list[str] = field(default_factory=list[str])
    """Constants that are not the user's: literals of the program."""


def lower(
    tensor: Tensor | Sequence[Tensor],
    constants: Mapping[str, Any] | None = None,
    name: str = "",
) -> Lowered:
    """Lower a graph to a program.

    Args:
        tensor: The outputs, in the order of their numbers.
        constants: Data of constants, by name.
        name: The program's name.

    Raises:
        ValueError: The outputs or the constants are not those of the graph, or two names are equal.
    """
    outputs = [tensor] if isinstance(tensor, Tensor) else list(tensor)
    graph = toposort(outputs)
    check_outputs(graph, outputs)
    bind_constants(graph, constants or {})
    name_graph(graph)
    check_names(graph)
    made = Lowered(Lowering(graph, name).of(outputs), graph, [str(t.name) for t in outputs])
    for t in (t for t in graph if t.source is None and not t.is_input):
        t._attrs["is_param"] = True  # pyright: ignore[reportPrivateUsage]
        if internal_data(t) is not None:
            made.internal.append(str(t.name))
            continue
        if t.data is None:
            made.unbound.append(str(t.name))
            continue
        lens = [n.upper_bound() for n in t.shape()]
        made.bound[str(t.name)] = t.data.array.reshape(lens)
    return made


def compile_model(
    tensor: Tensor | Sequence[Tensor],
    target: Any,
    workdir: str,  # noqa: ARG001 - see below
    test_name: str,
    profile_devs: Sequence[int] | None = None,  # noqa: ARG001 - see below
    dynamic_profiling_strategy: DynamicProfileStrategy = DynamicProfileStrategy.MAX,  # noqa: ARG001 - see below
    dll_name: str = "test.so",  # noqa: ARG001 - see below
    num_runtimes: int = 1,
    profile_dir: str | None = None,  # noqa: ARG001 - see below
    constants: Mapping[str, Any] | None = None,
    allocator_kind: Any = None,
    debug_settings: AITDebugSettings | None = None,
    do_optimize_graph: bool = True,  # noqa: ARG001 - see below
    profile_timeout: int = 500,  # noqa: ARG001 - see below
) -> Any:
    """Compile a graph to a model.

    The workbench chooses kernels by its own rules and writes no sources, so the settings of AITemplate's
    profiling, its folder and its library have no effect.

    Args:
        tensor: The outputs, in the order of their numbers.
        target: The device, as `detect_target` returns it, or the workbench's name of a target.
        workdir: Accepted for AITemplate's signature.
        test_name: The model's name.
        profile_devs: Accepted for AITemplate's signature.
        dynamic_profiling_strategy: Accepted for AITemplate's signature.
        dll_name: Accepted for AITemplate's signature.
        num_runtimes: The number of runs that can go on at a time.
        profile_dir: Accepted for AITemplate's signature.
        constants: Data of constants, by name; others are set before the first run.
        allocator_kind: The model's kind of allocator.
        debug_settings: None, or settings that are all off.
        do_optimize_graph: Accepted for AITemplate's signature.
        profile_timeout: Accepted for AITemplate's signature.

    Returns:
        The model; its ``debug_sorted_graph`` is the graph as a list of tensors.

    Raises:
        ValueError: ``num_runtimes`` is not positive, or `lower` refuses the graph.
        TypeError: The target is none.
        NotImplementedError: Values are to be checked or printed during runs.
    """
    if num_runtimes <= 0:
        raise ValueError(f"num_runtimes must be positive, but got {num_runtimes}")
    device = workbench_name(target)
    made = lower(tensor, constants, test_name.replace(",", "_"))
    _expect_no_checks(made.graph, debug_settings)
    model = Model.of(
        made.program, outputs=made.outputs, bound=made.bound, unbound=made.unbound,
        num_runtimes=num_runtimes, target=device,
    )  # fmt: skip
    model.debug_sorted_graph = made.graph
    if allocator_kind is not None:
        model.allocator_kind = allocator_kind
    return model
