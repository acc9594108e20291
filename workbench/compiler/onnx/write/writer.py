"""Programs as ONNX models: the main module as the graph, other modules as graphs inside it or functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper

from workbench.compiler.ir.instruction import Instruction, captured
from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.onnx.write import protos
from workbench.compiler.onnx.write.block import DOMAIN, Block, Names, Shared
from workbench.compiler.onnx.write.call import refusal
from workbench.compiler.onnx.write.registry import Named


def model_of(program: Program) -> onnx.ModelProto:
    """The ONNX model of a program.

    Raises:
        ModelError: An instruction has no meaning in ONNX.
    """
    names = output_names(program)
    shared = Shared(program, Names([*program.parameters, *names]))
    shared.preferred = _preferred(program, names)
    computed = (i for m in program.reachable_modules() for i in m if not i.name.startswith("@"))
    shared.last = {s: i.id for i in computed for s in i.sources[-1:]}
    block = Block(shared)
    for name, parameter in program.main.parameters.items():
        block.bind(parameter, name)
    results = block.write(program.main)
    for name, instruction, value in zip(names, program.outputs, results, strict=True):
        _give(block, instruction, value, name)
    return _model(shared, _graph(block, program, names))


def output_names(program: Program) -> list[str]:
    """The names of a model's outputs: the model's own where they are known, else numbered ones."""
    own = program.output_names
    count = len(program.outputs)
    if len(own) != count:
        own = ("output",) if count == 1 else tuple(f"output_{i}" for i in range(count))
    names = Names(program.parameters)
    return [names.unique(n) for n in own]


def _preferred(program: Program, outputs: Sequence[str]) -> dict[int, str]:
    """The names of tensors by the id of the instruction, where the model has one."""
    taken = {*outputs, *program.parameters}
    return {id: name for name, id in reversed(program.tensors.items()) if name not in taken}


def _give(block: Block, instruction: Instruction, value: Named, name: str) -> None:
    """Let a value have the name of an output: rename it if a node makes it and nothing has it yet."""
    if not isinstance(value, str):
        raise refusal(instruction, "an output is a tuple, which ONNX does not have")
    if not value:
        raise refusal(instruction, "an output has no value")
    block.nodes.append(onnx.NodeProto(op_type="Identity", input=[value], output=[name]))


def _graph(block: Block, program: Program, names: Sequence[str]) -> onnx.GraphProto:
    nodes = _renamed(protos.needed(block.nodes, names), set(names))
    used = set(protos.reads(nodes))
    inputs = [protos.value_info(n, s) for n, s in program.parameters.items()]
    outputs = [protos.value_info(n, o.shape) for n, o in zip(names, program.outputs, strict=True)]
    graph = helper.make_graph(nodes, program.name or "main", inputs, outputs)
    graph.initializer.extend(i for i in block.initializers if i.name in used)
    return graph


def _renamed(nodes: list[onnx.NodeProto], outputs: set[str]) -> list[onnx.NodeProto]:
    """The nodes, where an Identity to an output that a node computes is that node's output instead."""
    makers = {name: node for node in nodes for name in node.output}
    renamed: dict[str, str] = {}
    kept: list[onnx.NodeProto] = []
    for node in nodes:
        given = node.input[0] if node.input else ""
        is_end = node.op_type == "Identity" and not node.name and node.output[0] in outputs
        if is_end and given in makers and given not in renamed and given not in outputs:
            renamed[given] = node.output[0]
        else:
            kept.append(node)
    for node in kept:
        _rename(node, renamed)
    return kept


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    for field in (node.input, node.output):
        for at, name in enumerate(field):
            if name in names:
                field[at] = names[name]
    for graph in protos.inner_graphs(node):
        for inner in graph.node:
            _rename(inner, names)
        for output in graph.output:
            output.name = names.get(output.name, output.name)


def _model(shared: Shared, graph: onnx.GraphProto) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", shared.opset)]
    for function in shared.functions.values():
        function.opset_import.append(opsets[0])
    if shared.functions:
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    version = helper.find_min_ir_version_for(opsets[:1])
    model = helper.make_model(graph, opset_imports=opsets, producer_name=DOMAIN, ir_version=version)
    model.functions.extend(shared.functions.values())
    return model


# Modules


def subgraph(
    inner: Block, inputs: Mapping[str, Shape], results: Sequence[tuple[str, Shape]], name: str
) -> onnx.GraphProto:
    """The graph of a block inside another one; each of its outputs has a name of its own."""
    outputs: list[onnx.ValueInfoProto] = []
    for value, shape in results:
        own = inner.node("Identity", "", [value], 1, {})[0]
        outputs.append(protos.value_info(own, shape))
    nodes = protos.needed(inner.nodes, [o.name for o in outputs])
    used = set(protos.reads(nodes))
    given = [protos.value_info(n, s) for n, s in inputs.items()]
    graph = helper.make_graph(nodes, name, given, outputs)
    graph.initializer.extend(i for i in inner.initializers if i.name in used)
    return graph


def function(block: Block, module: Module, elementwise: bool) -> tuple[str, list[Instruction]]:
    """A module as a function of the model, made once; gives its name and the outer values that it takes."""
    outer = captured(module)
    key = module.name, elementwise
    functions = block.shared.functions
    if key not in functions:
        functions[key] = _function(block.shared, module, outer, elementwise)
    return functions[key].name, outer


def _function(
    shared: Shared, module: Module, outer: Sequence[Instruction], elementwise: bool
) -> onnx.FunctionProto:
    inner = Block(shared, function=True, elementwise=elementwise)
    parameters = [module.parameters[n] for n in sorted(module.parameters)]
    inputs: list[str] = []
    for instruction in (*parameters, *outer):
        inputs.append(shared.tensors.unique(instruction.parameter or instruction.name))
        inner.bind(instruction, inputs[-1])
    results = inner.write(module)
    outputs: list[str] = []
    for instruction, value in zip(module.outputs, results, strict=True):
        if not isinstance(value, str) or not value:
            raise refusal(instruction, "a result of a module is a tuple or has no value")
        outputs.append(_whole(inner, instruction, value, inputs) if elementwise else value)
    outputs = [inner.node("Identity", "", [o], 1, {})[0] if o in inputs or outputs.count(o) > 1
               else o for o in outputs]  # fmt: skip
    made = onnx.FunctionProto(
        name=shared.called.unique(_word(module.name)), domain=DOMAIN, input=inputs, output=outputs
    )
    made.node.extend(protos.needed(inner.nodes, outputs))
    if any(n.domain == DOMAIN for n in made.node):
        made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return made


def _whole(inner: Block, result: Instruction, value: str, inputs: Sequence[str]) -> str:
    """A result with the inputs' lens, even if no input decides it."""
    if any(i.parameter is not None for i in ancestors(result)):
        return value
    lens = inner.node("Shape", "", [inputs[0]], 1, {})[0]
    return inner.node("Expand", "", [value, lens], 1, {})[0]


def ancestors(result: Instruction) -> set[Instruction]:
    """An instruction, and those that it depends on."""
    found: set[Instruction] = set()
    stack = [result]
    while stack:
        if (i := stack.pop()) not in found:
            found.add(i)
            stack += i.inputs
    return found


def _word(name: str) -> str:
    """A module's name as an identifier."""
    made = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return made or "body"
