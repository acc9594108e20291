"""The cost of the doors from PyTorch: an import, and calls beside eager (needs torch)."""

from time import perf_counter
from typing import Any

import workbench as wb
from tests.bench.measure import Contender, Outcome, Timing, race
from tests.torch.architectures import architectures

SUBJECTS = (
    "torchvision/resnet18",
    "torchvision/mobilenet_v2",
    "transformers/BertModel",
    "transformers/LlamaForCausalLM",
)


def measure(subject: str, with_ours: bool, seconds: float) -> Outcome:  # noqa: ARG001
    """Seconds of an import, and of runs on the host: eager, ``torch.compile``, and the imported program."""
    import torch

    module, arguments, named = architectures()[subject]()
    with torch.no_grad():
        started = perf_counter()
        program = wb.from_torch(module, arguments, named)
        imported = perf_counter() - started
        build = wb.compile(program, target="cpu", record=False)
        inputs = dict(
            zip(program.parameters, [v.numpy() for v in (*arguments, *named.values())], strict=True)
        )
        torch._dynamo.reset()
        compiled: Any = torch.compile(module, backend="workbench", options={"record": False})
        contenders = {
            "eager": Contender(lambda _: module(*arguments, **named)),
            "torch.compile(backend='workbench')": Contender(
                lambda _: compiled(*arguments, **named)
            ),
            "from_torch, cpu": Contender(lambda _: build.runner.run(inputs)),
        }
        found = race("torch", subject, contenders, seconds=seconds)
    return Outcome((Timing("torch", subject, "import", (imported,)), *found.values()))
