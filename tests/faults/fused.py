"""Wrong instructions inside fused kernels, put there by a rule of the pipeline or behind its back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import workbench as wb
from tests.faults.fault import INSIDE, Fault, Plant, Planted, Wanted
from tests.faults.rules import Wrong
from tests.models.registry import MODELS
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.rewrite import Decline, Rewriter, op, rule, var

KIND = "fused"
FEED, STFT = "/encoder/layer.0/feed_forward", "F0::If_0_then_branch__Inline_0__/stft"


@dataclass(frozen=True)
class WrongInside(Wrong):
    """Apply a wrong rule once wherever it matches inside a fused kernel."""

    name: ClassVar[str] = "wrong_inside"

    def apply(self, program: Program) -> None:
        """Apply the rule."""
        for module in (m for m in program.reachable_modules() if m.bypass):
            for instruction in list(module):
                self.rule.apply_at(instruction)


@rule(op("erf", var("x")))
def erf_is_tanh(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """erf(x) → tanh(x)"""
    return b("tanh", x) if f"{FEED}/Erf_49" in b.root.sources else Decline("elsewhere")


@contextmanager
def _by_a_rule() -> Iterator[Planted]:
    program = wb.parse_onnx(MODELS["small_encoder"].path)
    clean = wb.compile(program, target="cpu")
    suspect = wb.compile(program, target="cpu", passes=["optimize", WrongInside(erf_is_tanh)])
    yield Planted(suspect, MODELS["small_encoder"].inputs(), "ref", clean)


def replaced_after(model: str, node: str, old: str, new: str, target: str) -> Plant:
    """A build in whose fused kernel an instruction was replaced after compilation.

    Args:
        model: the name of the model.
        node: the node of the model that the instruction comes from.
        old: the name of its operation.
        new: the name of the operation in its place.
        target: what the model is compiled for.
    """

    @contextmanager
    def plant() -> Iterator[Planted]:
        program, inputs = wb.parse_onnx(MODELS[model].path), MODELS[model].inputs()
        clean, suspect = (wb.compile(program, target=target).specialised(inputs) for _ in range(2))
        inner = (i for m in suspect.program.reachable_modules() if m.bypass for i in m)
        found = next(i for i in inner if i.name == old and node in i.sources)
        found.module.replace(found, found.module.insert(found, new, *found.inputs))
        yield Planted(suspect, inputs, "ref", clean)

    return plant


FAULTS = [
    Fault(
        "erf_is_tanh", KIND, "small_encoder", _by_a_rule,
        Wanted((f"{FEED}/Erf_49",), ("rewrite",), "erf_is_tanh", INSIDE),
    ),
    Fault(
        "add_for_mul_after_compilation", KIND, "small_encoder",
        replaced_after("small_encoder", f"{FEED}/Mul_51", "mul", "add", "cpu"),
        Wanted((f"{FEED}/Mul_51",), ("kernel", "rewrite"), most=INSIDE),
    ),
    Fault(
        "sub_for_add_after_compilation", KIND, "silero_16k_static",
        replaced_after("silero_16k_static", f"{STFT}/Add", "add", "sub", "gpu"),
        Wanted((f"{STFT}/Add",), ("kernel", "rewrite"), most=INSIDE),
    ),
]  # fmt: skip
