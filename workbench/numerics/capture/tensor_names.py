"""The model's own names of values: the instruction of the source program that computes each tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from workbench.compiler.errors import GraphError
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.instruction import Instruction, SourceNode
from workbench.compiler.ir.program import Program

TENSORFLOW = {"Const", "Placeholder", "PlaceholderWithDefault"}
"""Operators that TensorFlow's graphs have and ONNX's have not."""
_SHOWN = 3


def tensors(program: Program) -> dict[str, Instruction]:
    """The instruction of the main module that computes each named tensor of the model.

    Names are those of ONNX's tensors, TensorFlow's ``node:0`` in TensorFlow's layout, and the names of the
    parameters and outputs of the program. Initialisers and folded constants are included, as the literals
    that they became; tensors of subgraphs and of functions' bodies are not.

    The importer notes the names. A program whose file lacks them (MIGraphX's formats) is searched by the
    nodes of the model instead: a tensor is the value that leaves the instructions of its node. A name for
    which that is not certain is left out.

    Args:
        program: A program as it was imported, not a compiled one.
    """
    noted = {name: program.find(id) for name, id in program.tensors.items()}
    found = {k: i for k, i in noted.items() if i is not None and i.module is program.main}
    for name, instruction in _interface(program).items():
        found.setdefault(name, instruction)
    return found if program.tensors else found | _by_nodes(program, found)


def node_values(program: Program) -> dict[str, Instruction]:
    """The instruction that computes the first output of each node of the model, by the node's name.

    A node of which only the name is known, as in a program written by hand, has the one value that leaves its
    instructions.

    Args:
        program: A program as it was imported, not a compiled one.
    """
    known, end = tensors(program), _ending(program)
    named = {n.name: known.get(n.outputs[0] + end) for n in _outermost(program) if n.outputs}
    return _unlisted(program) | {name: i for name, i in named.items() if i is not None}


def _unlisted(program: Program) -> dict[str, Instruction]:
    """The values of nodes that the program's list of nodes lacks."""
    groups = {k: g for k, g in _groups(program).items() if k not in program.source_nodes}
    found = {name: _leaving(group) for name, group in groups.items()}
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def module_values(program: Program) -> dict[str, Instruction]:
    """The instruction that computes the result of each module, by the name that PyTorch gives the module.

    The name is read from the scopes of the nodes, ``encoder.layer.0``. The result is the one value that
    leaves the instructions of the module; a module from which several values leave is left out, such as one
    that is called twice.

    Args:
        program: A program as it was imported, not a compiled one.
    """
    groups: dict[str, list[Instruction]] = {}
    for source, instructions in _groups(program).items():
        node = program.source_nodes.get(source)
        if node is not None and node.op_type != "Initializer":
            for depth in range(1, len(node.scope) + 1):
                groups.setdefault(_module(node.scope[:depth]), []).extend(instructions)
    found = {name: _leaving(group) for name, group in groups.items()}
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _module(scope: Sequence[str]) -> str:
    """The name of the module with these enclosing scopes: after ``layer1``, ``layer1.0`` is not repeated."""
    pairs = zip(scope, [*scope[1:], ""], strict=True)
    return ".".join(part for part, following in pairs if not following.startswith(f"{part}."))


def tensor(program: Program, name: str) -> Instruction:
    """The instruction that computes the tensor of this name, or else the result of that node or module.

    Args:
        program: A program as it was imported, not a compiled one.
        name: The name of a tensor, a node, or a module.

    Raises:
        GraphError: The model has none of these; the message lists similar names.
    """
    known = tensors(program)
    if name not in known:
        known = named_instructions(program)
    if name not in known:
        raise GraphError(f"the model has no tensor, node or module {name!r}{similar(name, known)}")
    return known[name]


def named_instructions(program: Program) -> dict[str, Instruction]:
    """The instructions by all names: those of tensors, or else of nodes, or else of modules.

    Args:
        program: A program as it was imported, not a compiled one.
    """
    return module_values(program) | node_values(program) | tensors(program)


def similar(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known ones that are like it, or the first ones."""
    names = list(known)
    near = get_close_matches(name, names, _SHOWN)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    more = ", …" if len(names) > _SHOWN else ""
    return f"; there are {', '.join(map(repr, names[:_SHOWN]))}{more}" if names else ""


def _interface(program: Program) -> dict[str, Instruction]:
    """Parameters and outputs by name."""
    outputs = zip(program.output_names, program.outputs, strict=False)
    return {**dict(outputs), **program.main.parameters}


def _ending(program: Program) -> str:
    """The end of the name of a node's first output: TensorFlow names outputs after nodes, ``node:0``."""
    return ":0" if any(n.op_type in TENSORFLOW for n in program.source_nodes.values()) else ""


def _outermost(program: Program) -> list[SourceNode]:
    """The nodes of the main graph; those of a function are named after a node without instructions."""
    nodes = program.source_nodes
    calls = set[str]() if _ending(program) else nodes.keys() - _groups(program).keys()
    return [n for n in nodes.values() if calls.isdisjoint(_callers(n.name))]


def _callers(name: str) -> list[str]:
    """The paths that lead to a name: ``a`` and ``a/b`` for ``a/b/c``."""
    return [name[:k] for k, letter in enumerate(name) if letter == "/"]


# Without the importer's notes


def _by_nodes(program: Program, known: Mapping[str, Instruction]) -> dict[str, Instruction]:
    """The tensors that the instructions of each node tell, besides the known ones."""
    groups = _groups(program)
    nodes, end = [n for n in _outermost(program) if n.name in groups], _ending(program)
    made = Counter(name for n in _outermost(program) for name in n.outputs)
    readers = _readers(nodes)
    found: dict[str, Instruction] = {}
    for node in nodes:
        if not end or not any(name.startswith(f"{node.name}:") for name in readers):
            names = [n for n in node.outputs if n and made[n] == 1]
            told = _outputs(node, names, groups, readers)
            found |= {name + end: i for name, i in told.items() if name + end not in known}
    return found


def _groups(program: Program) -> dict[str, list[Instruction]]:
    """The instructions of the main module by the single node that they were made for."""
    groups: dict[str, list[Instruction]] = {}
    for instruction in program.main:
        computes = instruction.name != "undefined" and not isinstance(instruction.op, Return)
        if computes and len(instruction.sources) == 1:
            groups.setdefault(instruction.sources[0], []).append(instruction)
    return groups


def _readers(nodes: Iterable[SourceNode]) -> dict[str, list[str]]:
    """The nodes that read each tensor."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.inputs:
            found.setdefault(name, []).append(node.name)
    return found


def _outputs(
    node: SourceNode,
    names: list[str],
    groups: Mapping[str, list[Instruction]],
    readers: Mapping[str, list[str]],
) -> dict[str, Instruction]:
    """The values of some outputs of a node, as far as they are certain."""
    group = groups[node.name]
    leaving = _leaving(group)
    if len(node.outputs) == 1:
        return {name: leaving[0] for name in names if len(leaving) == 1}
    fits = {name: _read_by(leaving, [groups[r] for r in readers.get(name, ())]) for name in names}
    certain = {name: fit[0] for name, fit in fits.items() if len(fit) == 1}
    claims = Counter(certain.values())
    return {name: i for name, i in certain.items() if claims[i] == 1}


def _leaving(group: list[Instruction]) -> list[Instruction]:
    """The instructions of a group that others use; the last one, if there are none."""
    inside = set(group)
    return [i for i in group if not inside.issuperset(i.users)] or group[-1:]


def _read_by(
    values: Iterable[Instruction], groups: Iterable[list[Instruction]]
) -> list[Instruction]:
    """The values that each of the groups reads; none if there are no groups."""
    read = [{x for i in group for x in i.inputs} for group in groups]
    return [v for v in values if read and all(v in inputs for inputs in read)]
