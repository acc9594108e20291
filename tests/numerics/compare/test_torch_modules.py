"""PyTorch modules as references, tested with objects that have the methods of PyTorch's that are used."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import EvaluationError, InputError
from workbench.compiler.ir.instruction import SourceNode
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape


class Tensor:
    """A tensor, with the methods that are called."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    def detach(self) -> "Tensor":
        return self

    cpu = detach

    def numpy(self) -> Any:
        return self.value


class Module:
    """A module that computes a function of one array, after those of its submodules."""

    def __init__(self, function: Any, **parts: "Module") -> None:
        self.function = function
        self.parts = parts
        self.hooks: list[Any] = []

    def named_modules(self, prefix: str = "") -> Any:
        yield prefix, self
        for name, part in self.parts.items():
            yield from part.named_modules(f"{prefix}.{name}".lstrip("."))

    def register_forward_hook(self, hook: Any) -> Any:
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts.values():
            x = part(x)
        return Tensor(self.function(x.value))

    def __call__(self, x: Tensor) -> Tensor:
        found = self.forward(x)
        for hook in self.hooks:
            hook(self, (x,), found)
        return found


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library with the two functions that are called."""
    made = SimpleNamespace(from_numpy=Tensor, no_grad=nullcontext)
    monkeypatch.setitem(sys.modules, "torch", made)


def exported() -> Program:
    """exp and then tanh, each from a module of its own."""
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (2, 3)))
    for op in ("exp", "tanh"):
        program.source_nodes[f"/{op}/Op"] = SourceNode(f"/{op}/Op", op.title(), (f"layer_{op}",))
        with program.source(f"/{op}/Op"):
            x = program.main.add(op, x)
    program.main.add_return(x)
    return program


def whole(tanh: Any = np.tanh) -> Module:
    return Module(lambda x: x, layer_exp=Module(np.exp), layer_tanh=Module(tanh))


def test_a_module_is_compared_by_its_submodules():
    build = wb.compile(exported(), target="ref")
    report = wb.compare(build, reference=whole())
    assert [r.reference for r in report.rows] == ["layer_exp", "layer_tanh"]
    assert report.passed
    wrong = whole(lambda x: np.tanh(x) * np.float32(1.01))
    (culprit,) = wb.compare(build, reference=wrong).culprits()
    assert culprit.sources == ("/tanh/Op",)
    assert all(not m.hooks for _, m in wrong.named_modules())


def test_a_module_that_fails_or_has_other_names_is_refused():
    build = wb.compile(exported(), target="ref")
    with pytest.raises(EvaluationError, match="the PyTorch module fails: ZeroDivisionError"):
        wb.compare(build, reference=whole(lambda x: 1 // (x.size - 6)))
    with pytest.raises(InputError, match="none of 1 names"):
        wb.compare(build, reference=Module(np.exp, other=Module(np.exp)))
