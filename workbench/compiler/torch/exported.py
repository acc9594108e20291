"""Exported programs: parameters become literals, inputs parameters, changed buffers outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.torch.decompositions import completed
from workbench.compiler.torch.importer import GraphImporter
from workbench.compiler.torch.installed import torch
from workbench.compiler.torch.tensors import array_of

CHANGES = {"BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION"}
"""Outputs of an exported program that are the next values of what its ``forward`` changes in place."""


class FromTorch(Program):
    """A program made from a module of PyTorch.

    Attributes:
        initial: The first values of the buffers that a run replaces, by parameter (`Build.stateful`).
    """

    initial: dict[str, Array]


def export(
    module: Any,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> Any:
    """The exported program of a module, in core ATen operators.

    Raises:
        ModelError: ``torch.export`` refuses the module; its message follows.
    """
    api = torch("torch.export")
    try:
        if not isinstance(module, api.ExportedProgram):
            given = _examples((tuple(inputs), dict(kwargs or {})))
            module = api.export(module, *given, dynamic_shapes=dynamic_shapes, strict=False)
        return module.run_decompositions(completed(api.default_decompositions()))
    except Exception as error:  # whatever the user's code raises while it is traced
        raise ModelError(f"torch.export: {type(error).__name__}: {error}") from error


def _examples(inputs: Any) -> Any:
    """Inputs of which complex ones are no views: PyTorch asks for the base of a view, and loses it."""

    def plain(value: Any) -> Any:
        is_view = hasattr(value, "data_ptr") and value.dtype.is_complex and value._is_view()
        return value.clone() if is_view else value

    return torch("torch.utils._pytree").tree_map(plain, inputs)


def imported(exported: Any, name: str = "") -> FromTorch:
    """The program of an exported program, whose operators are core ATen.

    Raises:
        ModelError: An operator, an input or an output is not supported.
    """
    program = FromTorch(name)
    importer = GraphImporter(program, program.main, exported.graph_module)
    importer.symbols.restrict(exported.range_constraints)
    signature = exported.graph_signature
    _place(importer, exported, signature)
    nodes = list(exported.graph.nodes)
    importer.run([n for n in nodes if n.op not in {"placeholder", "output"}])
    _return(importer, exported, signature, nodes[-1].args[0])
    return program


def _place(importer: GraphImporter, exported: Any, signature: Any) -> None:
    """Give each placeholder a value."""
    changed = {s.target for s in signature.output_specs if s.kind.name in CHANGES}
    by_name = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    program = importer.program
    assert isinstance(program, FromTorch)
    program.initial = {}
    own = [s for s in signature.input_specs if s.kind.name == "USER_INPUT"]
    importer.parameters({by_name[s.arg.name]: s.arg.name for s in own})
    for spec in signature.input_specs:
        node, kind = by_name[spec.arg.name], spec.kind.name
        if kind == "USER_INPUT":
            continue
        if kind in {"PARAMETER", "BUFFER", "CONSTANT_TENSOR"}:
            tensor = _held(exported, spec)
            if spec.target in changed:
                importer.parameter(node, spec.target)
                program.initial[spec.target] = array_of(tensor)
            else:
                importer.constant(node, tensor, spec.target, kind.lower())
        else:
            raise ModelError(
                f"input {spec.arg.name!r} is a {kind.lower()}; expected tensors and numbers"
            )


def _held(exported: Any, spec: Any) -> Any:
    if spec.target in exported.state_dict:
        return exported.state_dict[spec.target]
    return exported.constants[spec.target]


def _return(importer: GraphImporter, exported: Any, signature: Any, results: Sequence[Any]) -> None:
    """End the program: the user's outputs, then the next values of what was changed in place."""
    specs = list(zip(signature.output_specs, results, strict=True))
    own = [node for spec, node in specs if spec.kind.name not in CHANGES]
    names = output_names(exported.call_spec.out_spec, len(own))
    kept = [(n, name) for n, name in zip(own, names, strict=True) if n is not None]
    replaced = [(node, spec.target) for spec, node in specs if spec.kind.name in CHANGES]
    values = importer.outputs([n for n, _ in (*kept, *replaced)])
    program = importer.program
    program.main.add_return(*values)
    program.updates = {name: len(kept) + k for k, (_, name) in enumerate(replaced)}
    program.output_names = tuple(
        _distinct([n for _, n in kept], [f"next_{n}" for _, n in replaced])
    )
    made = {n: v for n, v in importer.values.items() if isinstance(v, Instruction)}
    program.tensors = {str(importer.names.get(n, n.name)): v.id for n, v in made.items()}


def _distinct(names: Sequence[str], more: Sequence[str]) -> list[str]:
    counts = Counter[str]()
    found: list[str] = []
    for name in (*names, *more):
        counts[name] += 1
        found.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return found


def output_names(spec: Any, count: int) -> list[str]:
    """The names of outputs from the structure that a module returns: keys, fields and positions."""
    tree = torch("torch.utils._pytree")
    if spec is None or spec.num_leaves != count:
        return [f"output{k}" for k in range(count)]
    paths, _ = tree.tree_flatten_with_path(tree.tree_unflatten(list(range(count)), spec))
    return [".".join(_part(p) for p in path) or "output" for path, _ in paths]


def _part(key: Any) -> str:
    found = next((getattr(key, a) for a in ("key", "name", "idx") if hasattr(key, a)), key)
    return f"output{found}" if isinstance(found, int) else str(found)
