"""The backend of ``torch.compile``: each graph becomes a build, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from workbench.compat.torch.graphs import Break, TorchGraph, break_of, remember
from workbench.compat.torch.running import device_of, run
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.build import compile as compile_program
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.torch.decompositions import completed
from workbench.compiler.torch.importer import GraphImporter, has_complex
from workbench.compiler.torch.installed import torch
from workbench.compiler.torch.provenance import line_text

OPTIONS = {"target", "precision", "passes", "disable", "keep", "device", "record", "check"}
"""The keys of ``options=`` of ``torch.compile``: arguments of `workbench.compile`."""

_numbers = count()


def backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **more: Any
) -> Callable[..., Any]:
    """Compile a graph of TorchDynamo; ``torch.compile(model, backend="workbench")`` calls this.

    AOTAutograd makes functional graphs of core ATen operators, one for inference, or one forward and one
    backward; each becomes a build (`workbench.torch.builds`).

    Args:
        module: The graph.
        inputs: Its example inputs.
        options: Arguments of `workbench.compile`: ``target``, ``precision``, ``passes``…
        **more: Other arguments of ``torch.compile``, such as ``mode``; there must be none.

    Raises:
        OperationError: There is no such option or argument.
        ModelError: An operator is not supported; the message names it with the user's line.
    """
    given = dict(options or {})
    if more:
        raise OperationError(
            f"torch.compile: {min(more)}={more[min(more)]!r} means nothing to this backend; expected options"
        )
    if unknown := set(given) - OPTIONS:
        raise OperationError(
            f"option {min(unknown)!r} of torch.compile; expected {', '.join(sorted(OPTIONS))}"
        )
    ended = break_of(getattr(module, "compile_subgraph_reason", None))
    job = _Job(next(_numbers), given, ended)
    common = torch("torch._dynamo.backends.common")
    decompositions = core_decompositions()
    compiler = common.aot_autograd(
        fw_compiler=partial(_compiled, job, "forward"),
        bw_compiler=partial(_compiled, job, "backward"),
        inference_compiler=partial(_compiled, job, "inference"),
        decompositions=decompositions,
    )
    with _attention(inputs):
        return compiler(module, inputs)


def _attention(inputs: Sequence[Any]) -> AbstractContextManager[Any]:
    """Attention of CUDA tensors as products and a softmax, not as one of the kernels of PyTorch."""
    if _target(inputs) == "cpu":
        return nullcontext()
    attention = torch("torch.nn.attention")
    return attention.sdpa_kernel(attention.SDPBackend.MATH)


def core_decompositions() -> dict[Any, Any]:
    """Decompositions to the core ATen operators."""
    return completed(dict(torch("torch._decomp").core_aten_decompositions()))


@dataclass(frozen=True)
class _Job:
    """One graph of TorchDynamo."""

    number: int
    options: dict[str, Any]
    ended: Break | None


def _compiled(job: _Job, kind: str, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The callable of one functional graph: it takes and returns lists of tensors."""
    with torch(
        "torch.utils._python_dispatch"
    )._disable_current_modes():  # constants are real tensors
        return _callable(job, kind, module, inputs)


def _callable(job: _Job, kind: str, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    imported = import_graph(module, f"graph {job.number}, {kind}")
    options: dict[str, Any] = {"target": _target(inputs), **job.options}
    build = compile_program(imported.program, **options)
    ranges = {
        d.name: str(d) for p in imported.program.parameters.values() for d in p.dims or () if d.name
    }
    where = next((t for n in module.graph.nodes if (t := line_text(n))), "")
    remember(TorchGraph(build, kind, job.number, where, job.ended, ranges))
    made = _Callable(build, imported)
    return torch("functorch.compile").make_boxed_func(made)


def _target(inputs: Sequence[Any]) -> str:
    """The target for inputs: that of devices for CUDA tensors, else the host's."""
    device = device_of(inputs)
    return "gpu" if device is not None and device.type == "cuda" else "cpu"


_NUMBERS = {"SymFloat": float, "SymBool": bool, "float": float, "bool": bool}


@dataclass(frozen=True)
class Output:
    """A result as PyTorch takes it: a tensor of a device, or a number of Python's."""

    device: Any = None
    is_complex: bool = False
    number: Callable[[Any], Any] | None = None

    def of(self, found: Any) -> Any:
        """The result from the tensor that the program made."""
        if self.number is not None:
            return self.number(found.item())
        made = torch().view_as_complex(found) if self.is_complex else found
        return made if made.device == self.device else made.to(self.device)


@dataclass(frozen=True)
class Imported:
    """A program of a functional graph."""

    program: Program
    names: tuple[str | None, ...]
    """The parameter of each argument; None for one that the program does not read."""
    results: tuple[int | None, ...]
    """The program's output of each result; None for a result that is None."""
    seed: str | None
    """The parameter for the seed of random numbers, if there is one."""
    outputs: tuple[Output, ...]
    """What PyTorch takes each output of the program for."""


def import_graph(module: Any, name: str = "") -> Imported:
    """The program of a functional graph of core ATen operators, such as AOTAutograd makes.

    Raises:
        ModelError: An operator, an input or an output is not supported.
    """
    program = Program(name)
    importer = GraphImporter(program, program.main, module, is_seeded=True)
    nodes = list(module.graph.nodes)
    places = [n for n in nodes if n.op == "placeholder"]
    names = importer.parameters({n: n.name for n in places})
    importer.run([n for n in nodes if n.op not in {"placeholder", "output"}])
    (returned,) = nodes[-1].args
    kept = [n for n in returned if n is not None]
    program.main.add_return(*importer.outputs(kept))
    order = iter(range(len(kept)))
    results = tuple(None if n is None else next(order) for n in returned)
    outputs = tuple(map(_output, kept))
    return Imported(program, tuple(names), results, importer.seed_name, outputs)


def _output(node: Any) -> Output:
    known = node.meta["val"] if hasattr(node, "meta") else node
    if hasattr(known, "dtype"):
        return Output(known.device, has_complex(node))
    return Output(number=_NUMBERS.get(type(known).__name__, int))


class _Callable:
    """Runs a build on the arguments of a graph."""

    def __init__(self, build: Build, imported: Imported) -> None:
        """The build, and what its parameters and outputs are in the graph."""
        self.build = build
        self.imported = imported

    def __call__(self, *arguments: Any) -> list[Any]:
        """The results of the graph."""
        names = self.imported.names
        given = {n: a for n, a in zip(names, arguments, strict=True) if n is not None}
        if self.imported.seed is not None:
            given[self.imported.seed] = _drawn()
        found = run(self.build, given)
        found = [o.of(v) for o, v in zip(self.imported.outputs, found, strict=True)]
        return [None if k is None else found[k] for k in self.imported.results]


def _drawn() -> Any:
    """A seed from PyTorch's generator of the host, so that ``torch.manual_seed`` repeats a run."""
    module = torch()
    return module.randint(0, 2**62, (1,), dtype=module.int64, device="cpu").numpy().view("uint64")
