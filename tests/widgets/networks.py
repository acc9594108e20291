"""Programs to draw: a residual network, a decomposed transformer of any length, hostile names."""

import numpy as np

from workbench.compiler.ir.module import Instruction, SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.record.recording import Recording
from workbench.widgets.graph_view import GraphView

HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>\\N`${1}"


class Builder:
    """Adds instructions that come from ONNX nodes with scopes."""

    def __init__(self, name: str) -> None:
        self.program = Program(name)
        self.main = self.program.main
        self.made = 0

    def add(
        self, op: str, *inputs: Instruction, scope: str = "", **attributes: object
    ) -> Instruction:
        self.made += 1
        name = f"/{scope}/{op}_{self.made}"
        self.program.source_nodes[name] = SourceNode(
            name, op, tuple(s for s in scope.split("/") if s)
        )
        with self.program.source(name):
            return self.main.add(op, *inputs, **attributes)

    def weight(self, name: str, *lens: int) -> Instruction:
        self.program.source_nodes[name] = SourceNode(name)
        with self.program.source(name):
            data = np.random.default_rng(self.made).standard_normal(lens)
            return self.main.add_literal(data.astype(np.float32))


def residual(blocks: int = 4) -> Program:
    """Convolutions with batch norms spelt out and shortcuts, in scopes ``layer1/block0``."""
    b = Builder("residual")
    x = b.main.add_parameter("image", Shape("float", (1, 8, 16, 16)))
    for k in range(blocks):
        scope, start = f"layer{k // 2}/block{k}", x
        for c in range(2):
            x = _convolved(b, x, f"{scope}/conv{c}")
        x = b.add("relu", b.add("add", x, start, scope=scope), scope=scope)
    pooled = b.add("reduce_mean", x, axes=[2, 3], scope="pool")
    flat = b.add("reshape", pooled, dims=[1, 8], scope="head")
    b.main.add_return(b.add("dot", flat, b.weight("head.weight", 8, 4), scope="head"))
    return b.program


def _convolved(b: Builder, x: Instruction, scope: str) -> Instruction:
    weights = b.weight(f"{scope}.weight", 8, 8, 3, 3)
    ones = {"stride": [1, 1], "dilation": [1, 1], "group": 1}
    x = b.add("convolution", x, weights, padding=[1, 1], scope=scope, **ones)
    for op in ("mul", "add"):
        side = b.add(
            "broadcast", b.weight(f"{scope}.{op}", 8), axis=1, out_lens=x.shape.lens, scope=scope
        )
        x = b.add(op, x, side, scope=scope)
    return b.add("relu", x, scope=scope)


def transformer(layers: int, *, scoped: bool = True) -> Program:
    """A transformer encoder decomposed to small operations, some 60 instructions a layer."""
    b = Builder("transformer")
    x = b.main.add_parameter("tokens", Shape("float", (1, 4, 8)))
    mask = b.main.add_parameter("mask", Shape("float", (1, 4, 4)))
    for k in range(layers):
        scope = f"encoder/layer.{k}" if scoped else ""
        first, second = (f"{scope}/norm{n}" if scoped else "" for n in (1, 2))
        x = _norm(b, b.add("add", _attention(b, x, mask, scope), x, scope=scope), first)
        y = _linear(b, x, f"{scope}/mlp" if scoped else "")
        x = _norm(b, b.add("add", b.add("erf", y, scope=scope), x, scope=scope), second)
    b.main.add_return(x)
    return b.program


def _linear(b: Builder, x: Instruction, scope: str) -> Instruction:
    weights = b.add("multibroadcast", b.weight("weight", 8, 8), out_lens=[1, 8, 8], scope=scope)
    bias = b.add("multibroadcast", b.weight("bias", 8), out_lens=[1, 4, 8], scope=scope)
    return b.add("add", b.add("dot", x, weights, scope=scope), bias, scope=scope)


def _attention(b: Builder, x: Instruction, mask: Instruction, scope: str) -> Instruction:
    inner = f"{scope}/attention" if scope else ""
    q, k, v = (_linear(b, x, f"{inner}/{n}" if inner else "") for n in ("query", "key", "value"))
    scores = b.add("dot", q, b.add("transpose", k, permutation=[0, 2, 1], scope=inner), scope=inner)
    scores = b.add("add", scores, mask, scope=inner)
    peak = b.add("reduce_max", scores, axes=[2], scope=inner)
    peak = b.add("multibroadcast", peak, out_lens=[1, 4, 4], scope=inner)
    powers = b.add("exp", b.add("sub", scores, peak, scope=inner), scope=inner)
    total = b.add("reduce_sum", powers, axes=[2], scope=inner)
    total = b.add("multibroadcast", total, out_lens=[1, 4, 4], scope=inner)
    return b.add("dot", b.add("div", powers, total, scope=inner), v, scope=inner)


def _norm(b: Builder, x: Instruction, inner: str) -> Instruction:
    def mean(value: Instruction) -> Instruction:
        reduced = b.add("reduce_mean", value, axes=[2], scope=inner)
        return b.add("multibroadcast", reduced, out_lens=[1, 4, 8], scope=inner)

    centred = b.add("sub", x, mean(x), scope=inner)
    spread = mean(b.add("mul", centred, centred, scope=inner))
    scaled = b.add("mul", centred, b.add("rsqrt", spread, scope=inner), scope=inner)
    gain = b.add("multibroadcast", b.weight("gain", 8), out_lens=[1, 4, 8], scope=inner)
    return b.add("mul", scaled, gain, scope=inner)


def chain(count: int) -> Program:
    """One operation after the other: nothing of it is a block that repeats."""
    program = Program("chain")
    x = program.main.add_parameter("x", Shape("float", (3,)))
    for _ in range(count):
        x = program.main.add("relu", x)
    program.main.add_return(x)
    return program


def unfolded(program: Program) -> GraphView:
    """A graph with all groups open, those of repeated blocks, too."""
    view = GraphView(program)
    view.expanded = sorted(view.scene.openable())
    return view


def hostile() -> Program:
    """A program whose every name is markup, quotes and escapes."""
    b = Builder(HOSTILE)
    x = b.main.add_parameter(HOSTILE, Shape("float", (2, 3)))
    y = b.add("relu", b.add("neg", x, scope=f"{HOSTILE}/{HOSTILE}"), scope=f"{HOSTILE}/{HOSTILE}")
    b.main.add_return(b.add("add", y, b.weight(HOSTILE, 2, 3), scope=HOSTILE))
    return b.program


def fused() -> Program:
    """A pointwise instruction whose body adds and clips."""
    program = Program("fused")
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    y = program.main.add_parameter("y", Shape("float", (2, 3)))
    body = program.create_module("main:pointwise0", bypass=True)
    scalar = Shape("float", (1,), (0,))
    ends = [body.add_parameter(n, scalar) for n in ("x1", "x0")]
    body.add_return(body.add("relu", body.add("add", *reversed(ends))))
    program.main.add_return(program.main.add("pointwise", x, y, modules=[body]))
    return program


def recorded(program: Program) -> Recording:
    """The optimising pipeline at work on a program."""
    from workbench.compiler.passes.pipelines import optimize

    with Recording(program) as recording:
        optimize().apply(program)
    return recording


def lowered(program: Program) -> Recording:
    """The optimising pipeline, and after it a lowering that makes a kernel of whatever computes something."""
    from workbench.compiler.record.lowered import Lowered, LoweredRow, PlaceRow
    from workbench.compiler.text.printing import names

    recording, named = recorded(program), names(program)
    rows = [
        LoweredRow(
            i.id, named[i.id], "kernel", f"{i.name}_{HOSTILE}", (PlaceRow("value#1", 0, 64, 8),)
        )
        if i.inputs
        else LoweredRow(i.id, named[i.id], "part" if i.module.bypass else "literal")
        for i in program.instructions
    ]
    recording.lower(lambda: Lowered(tuple(rows), 72, HOSTILE))
    return recording
