"""Gradients of layers, and loss curves of networks, beside PyTorch's (needs torch and CUDA)."""

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.bench import on_device
from tests.bench.measure import Claim, Outcome
from tests.models import export
from workbench.compiler.onnx import parse_onnx

LAYERS = ("linear", "convolution", "layer norm", "embedding", "attention", "lstm")
NETWORKS = ("transformer", "cnn")
SUBJECTS = (*LAYERS, *NETWORKS)
STEPS = 200
CLASSES = 10
_RATE = 0.01
_BATCHES = 20
"""Batches that are learned by heart, so that the loss falls far."""


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """The largest relative difference of results and gradients, or of losses, from PyTorch's in float32."""
    if not on_device.has_cuda_torch():
        raise RuntimeError("this measure needs torch with CUDA, and a GPU")
    import torch

    torch.manual_seed(export.SEED)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return _layer(subject) if subject in LAYERS else _curve(subject)


def _layer(subject: str) -> Outcome:
    """A layer's result, and the gradients of its weights for a random gradient of the result."""
    import torch

    module, arguments = _made(subject)
    expected = module(*arguments.values())
    given = torch.randn_like(expected)
    expected.backward(given)
    theirs = {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}
    program = wb.extend(
        _imported(module, arguments), lambda y, given: (y * given).sum(), given=given.numpy()
    )
    step = wb.training_step(program, None, list(theirs))
    inputs = {n: x.numpy() for n, x in arguments.items()} | step.initial | {"given": given.numpy()}
    facts: list[tuple[str, str]] = []
    worst = 0.0
    for target in ("ref", "gpu"):
        found = wb.compile(step, target=target, record=False).run(inputs)
        errors = [_relative(found[f"grad_{n}"], g) for n, g in theirs.items()]
        worst = max(worst, *errors)
        facts.append((f"{subject} on {target}, {len(errors)} gradients", f"{max(errors):.1e}"))
    claim = Claim("gradients", subject, "largest difference from torch's", worst, 1e-5)
    return Outcome((), (claim,), tuple(facts))


def _relative(found: Any, expected: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected))


def _imported(module: Any, arguments: Mapping[str, Any]) -> wb.Program:
    """A module as a program; its weights are constants with the module's names."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module.eval(), tuple(arguments.values()), str(path), dynamo=True, external_data=False,
                opset_version=export.OPSET, input_names=list(arguments), optimize=False,
            )  # fmt: skip
        return parse_onnx(path)


def _made(subject: str) -> tuple[Any, dict[str, Any]]:
    """A layer with arguments of a few dozen rows."""
    import torch
    from torch import nn

    x = torch.randn(4, 12, 32)
    if subject == "embedding":
        return nn.Embedding(50, 16), {"input": torch.randint(0, 50, (4, 12))}
    if subject == "convolution":
        return nn.Conv2d(6, 8, 3, stride=2, padding=1, groups=2), {"input": torch.randn(2, 6, 9, 9)}
    if subject == "attention":
        return _Attention(32, 4), {"x": x}
    if subject == "lstm":
        return _First(nn.LSTM(32, 24, batch_first=True)), {"x": x}
    return (nn.Linear(32, 24) if subject == "linear" else nn.LayerNorm(32)), {"input": x}


def _network(subject: str) -> tuple[Any, Callable[[int], dict[str, Any]]]:
    """A network of `CLASSES` logits, and its arguments in a step."""
    import torch
    from torch import nn

    if subject == "cnn":
        module = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32 * 16, CLASSES),
        )  # fmt: skip
        return module, lambda _: {"input": torch.randn(16, 1, 16, 16)}
    return _Transformer(), lambda _: {"x": torch.randn(8, 12, 32)}


def _curve(subject: str) -> Outcome:
    """The losses of `STEPS` steps of descent with momentum; differences are relative to their mean."""
    import torch

    module, batch = _network(subject)
    batches = [batch(k) for k in range(_BATCHES)] * (STEPS // _BATCHES)
    teacher = torch.randn(batches[0][next(iter(batches[0]))].flatten(1).shape[1], CLASSES)
    labels = [(next(iter(b.values())).flatten(1) @ teacher).argmax(-1) for b in batches]
    program = wb.extend(
        _imported(module, batches[0]),
        lambda y, goal: -(y.logsoftmax(axis=1) * goal).sum(axis=1).mean(),
        goal=(len(labels[0]), CLASSES),
    )
    weights = [n for n, p in module.named_parameters() if p.requires_grad]
    step = wb.training_step(program, wb.SGD(_RATE, momentum=0.9), weights)
    inputs = [
        {n: x.numpy() for n, x in b.items()}
        | {"goal": np.eye(CLASSES, dtype=np.float32)[y.numpy()]}
        for b, y in zip(batches, labels, strict=True)
    ]
    ours = {t: _losses(step, t, inputs) for t in ("ref", "gpu")}
    theirs = _torch_losses(module, batches, labels)
    worst = {t: float(np.max(np.abs(o - theirs)) / np.mean(theirs)) for t, o in ours.items()}
    facts = [
        (f"{subject} on {t}, losses {theirs[0]:.2g} to {theirs[-1]:.2g}", f"{w:.1e}")
        for t, w in worst.items()
    ]
    claim = Claim("gradients", subject, "largest difference of losses", max(worst.values()), 0.01)
    return Outcome((), (claim,), tuple(facts))


def _losses(step: wb.Program, target: str, inputs: list[dict[str, Any]]) -> np.ndarray:
    history = wb.compile(step, target=target, record=False).stateful(step.initial).train(inputs)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return history.iloc[:, 0].to_numpy()


def _torch_losses(module: Any, batches: list[dict[str, Any]], labels: list[Any]) -> np.ndarray:
    import torch

    optimizer = torch.optim.SGD(module.parameters(), _RATE, momentum=0.9)
    found: list[float] = []
    for batch, wanted in zip(batches, labels, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(*batch.values()), wanted)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return np.array(found)


def _classes() -> tuple[type, type, type]:
    """The modules of this measure; torch is imported when they are made."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        """Self-attention with several heads."""

        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.project = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            rows, length, width = x.shape
            parts = self.project(x).reshape(rows, length, 3, self.heads, width // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(rows, length, width))

    class Block(nn.Module):
        """A layer of a transformer, normalised first."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.attention, self.first = Attention(width, 4), nn.LayerNorm(width)
            self.second = nn.LayerNorm(width)
            self.wide = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x))
            return x + self.wide(self.second(x))

    class Transformer(nn.Module):
        """Two layers, and a classifier of the mean."""

        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(Block(32), Block(32))
            self.out = nn.Linear(32, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.out(self.blocks(x).mean(1))

    class First(nn.Module):
        """The first result of a module."""

        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0]

    return Attention, Transformer, First


def _Attention(width: int, heads: int) -> Any:
    return _classes()[0](width, heads)


def _Transformer() -> Any:
    return _classes()[1]()


def _First(inner: Any) -> Any:
    return _classes()[2](inner)
