"""PyTorch's own samples of its operators against eager; exceptions are listed with their reasons."""

import operator
from collections import Counter

import pytest

import workbench as wb
from tests.torch.exceptions import EXCEPTIONS, TIES, UNDEFINED

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def _may_differ(operator):
    return operator in UNDEFINED or operator in TIES


@pytest.mark.parametrize("first", ["_abc", "defg", "hijklm", "no", "pqr", "stuvwxyz"])
def test_samples_of_core_operators_agree(first):
    from tests.torch.operators import core_operators, outcome, samples

    core = core_operators()
    found = [outcome(*s) for s in samples(lambda name: name[0].lower() in first)]
    own = [o for o in found if o.kind != "skipped" and o.operators <= core]
    wrong = [o for o in own if o.kind in {"differs", "failed"} and not _may_differ(o.operator)]
    refused = [o for o in own if o.kind == "refused" and not o.operators & set(EXCEPTIONS)]
    assert wrong == []
    assert refused == []
    assert Counter(o.kind for o in own)["agrees"] > 100


def test_samples_of_other_operators_are_right_or_refused():
    from tests.torch.operators import core_operators, outcome, samples

    core = core_operators()
    found = [outcome(*s) for s in samples(lambda name: name[0].lower() in "bfnu")]
    others = [o for o in found if o.kind != "skipped" and not o.operators <= core]
    assert [
        o for o in others if o.kind in {"differs", "failed"} and not _may_differ(o.operator)
    ] == []


def test_core_operators_called_directly_agree():
    from tests.torch.direct import direct_samples
    from tests.torch.operators import direct_outcome

    found = [direct_outcome(name, made()) for name, made in direct_samples().items()]
    assert len(found) > 30
    assert [o for o in found if o.kind != "agrees"] == []


def test_every_core_operator_has_a_handler_or_a_reason():
    from tests.torch.operators import core_operators
    from workbench.compiler.torch import operators

    assert core_operators() - set(operators()) == {"aten.atan2.out", "aten.resize_"}
    assert {"aten.atan2.out", "aten.resize_"} <= set(EXCEPTIONS)


@pytest.mark.parametrize(
    "name",
    ["conv1d", "conv2d", "conv_transpose2d", "layer_norm", "group_norm", "batch_norm", "avg_pool2d",
     "max_pool2d", "adaptive_avg_pool2d", "embedding", "softmax", "gelu", "linear", "cross_entropy",
     "scaled_dot_product_attention"],
)  # fmt: skip
def test_gradients_of_layers_agree(name):
    from tests.torch.gradients import gradient_outcomes

    found = gradient_outcomes(f"nn_functional_{name}")
    assert [o for o in found if o.kind in {"differs", "failed"}] == []
    assert any(o.kind == "agrees" for o in found)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("flash", (0.0, True)),
        ("efficient", (None, False, 0.0, True)),
        ("cudnn", (None, False, 0.0, True)),
        ("fused", (None, 0.0, True)),
    ],
)
def test_kernels_of_attention_are_attention(name, given):
    """Graphs that were decomposed for CUDA have them; here they are traced without running them."""
    import torch
    from torch._subclasses import FakeTensorMode

    from workbench.compat.torch.backend import import_graph
    from workbench.compat.torch.running import run

    suffix = "_overrideable" if name == "fused" else ""
    op = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention{suffix}").default
    inputs = [torch.randn(2, 3, 16, 8) for _ in range(3)]
    graph = torch.fx.Graph()
    places = [graph.placeholder(n) for n in "qkv"]
    called = graph.call_function(op, (*places, *given), {"scale": 0.5})
    part = graph.call_function(operator.getitem, (called, 0))
    graph.output((part,))
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) for x in inputs]
        result = torch.empty(2, 3, 16, 8)
    for place, fake in zip(places, fakes, strict=True):
        place.meta["val"] = fake
    called.meta["val"], part.meta["val"] = (result, None, None, None), result
    imported = import_graph(torch.fx.GraphModule(torch.nn.Module(), graph))
    build = wb.compile(imported.program, target="ref")
    (found,) = run(build, dict(zip("qkv", inputs, strict=True)))
    wanted = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True, scale=0.5)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
