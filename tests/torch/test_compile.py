"""``torch.compile(backend="workbench")``: inference, training, breaks, lengths and options."""

import numpy as np
import pytest

import workbench as wb

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    wb.torch.clear()
    return torch


def _classifier(torch):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.LayerNorm(128), nn.Linear(128, 10),
    )  # fmt: skip


def test_inference_is_one_build(torch):
    net, x = _classifier(torch).eval(), torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        found = torch.compile(net, backend="workbench")(x)
        torch.testing.assert_close(found, net(x))
    (graph,) = wb.torch.builds()
    assert graph.kind == "inference"
    assert graph.build.target.name == "cpu"


def _trained(torch, compiled):
    net = _classifier(torch)
    step = torch.compile(net, backend="workbench") if compiled else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    draw = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(6):
        x, wanted = (
            torch.randn(6, 3, 16, 16, generator=draw),
            torch.randint(0, 10, (6,), generator=draw),
        )
        loss = torch.nn.functional.cross_entropy(step(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net.state_dict()


def test_training_follows_eager(torch):
    (wanted, state), (found, own) = _trained(torch, compiled=False), _trained(torch, compiled=True)
    np.testing.assert_allclose(found, wanted, 1e-3)
    for name, value in state.items():
        torch.testing.assert_close(own[name], value, rtol=1e-2, atol=1e-3)
    assert [g.kind for g in wb.torch.builds()] == ["forward", "backward"]
    assert len({g.number for g in wb.torch.builds()}) == 1


def test_attention_trains(torch):
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    x = torch.randn(2, 5, 16)
    layer(x).square().sum().backward()
    wanted = {n: p.grad.clone() for n, p in layer.named_parameters()}
    layer.zero_grad()
    torch.compile(layer, backend="workbench")(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-3, atol=1e-4)


def test_graph_breaks_have_a_line_and_a_reason(torch):
    def broken(x):
        y = torch.sin(x) * 2
        print("<b>")
        return y.cos()

    x = torch.ones(3)
    torch.testing.assert_close(torch.compile(broken, backend="workbench")(x), broken(x))
    builds = wb.torch.builds()
    (found,) = builds.breaks
    assert found.file == "test_compile.py"
    assert found.code == 'print("<b>")'
    assert found.reason
    assert [g.ended for g in builds] == [found, None]
    assert list(builds.table()["kind"]) == ["inference", "inference"]
    assert list(builds.breaks_table()["code"]) == ['print("<b>")']
    assert 'print("&lt;b&gt;")' in builds._repr_html_()


def test_one_build_serves_many_lengths(torch):
    def scores(x):
        return torch.softmax(x @ x.T, -1).reshape(-1)

    compiled = torch.compile(scores, backend="workbench", dynamic=True)
    for n in (3, 5, 40):
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), scores(x))
    (graph,) = wb.torch.builds()
    assert any("[2.." in r for r in graph.ranges.values())


def test_guards_compile_again(torch):
    compiled = torch.compile(lambda x, n: x * n, backend="workbench", dynamic=False)
    for n in (2, 3):
        torch.testing.assert_close(compiled(torch.ones(2), n), torch.full((2,), float(n)))
    assert len(wb.torch.builds()) == 2


def test_options_are_those_of_compile(torch):
    net, x = torch.nn.Linear(64, 64), torch.randn(4, 64)
    options = {"target": "ref", "precision": "fp16"}
    with torch.no_grad():
        found = torch.compile(net, backend="workbench", options=options)(x)
        error = (found - net(x)).abs().max()
    assert 1e-5 < error < 1e-2
    assert wb.torch.builds()[0].build.target.name == "ref"
    with pytest.raises(
        Exception, match=r"option 'colour' of torch\.compile; expected check, device"
    ):
        torch.compile(lambda x: x + 1, backend="workbench", options={"colour": 1})(x)
    with pytest.raises(Exception, match="mode='max-autotune' means nothing to this backend"):
        torch.compile(lambda x: x + 2, backend="workbench", mode="max-autotune")(x)


def test_dropout_draws_anew_and_repeats_from_a_seed(torch):
    drop = torch.compile(torch.nn.Dropout(0.25), backend="workbench")
    x = torch.ones(4000)
    torch.manual_seed(5)
    first, second = drop(x), drop(x)
    torch.manual_seed(5)
    assert torch.equal(drop(x), first)
    assert not torch.equal(first, second)
    assert abs(float((first == 0).float().mean()) - 0.25) < 0.03
    np.testing.assert_allclose(first.unique(), [0, 4 / 3], 1e-6)


def test_inputs_that_are_changed_in_place_are(torch):
    def counted(x, seen):
        seen += 1
        return x * seen

    x, seen = torch.ones(3), torch.zeros(3)
    found = torch.compile(counted, backend="workbench")(x, seen)
    torch.testing.assert_close(seen, torch.ones(3))
    torch.testing.assert_close(found, torch.ones(3))


def test_results_do_not_share_memory_with_inputs(torch):
    compiled = torch.compile(lambda x, y: (x.clone(), x + y), backend="workbench")
    x = torch.ones(3)
    copy, _ = compiled(x, torch.ones(3))
    copy += 1
    torch.testing.assert_close(x, torch.ones(3))


def test_bfloat16_goes_in_and_out(torch):
    net, x = torch.nn.Linear(8, 8).bfloat16(), torch.randn(2, 8).bfloat16()
    with torch.no_grad():
        found = torch.compile(net, backend="workbench")(x)
        assert found.dtype is torch.bfloat16
        torch.testing.assert_close(found, net(x), rtol=0.02, atol=0.02)


def test_fused_layers_of_inference_are_decomposed(torch):
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True).eval()
    x = torch.randn(2, 5, 16)
    hidden = torch.tensor([[False, False, False, True, True], [False] * 5])
    with torch.no_grad():
        for mask in (None, hidden):
            compiled = torch.compile(layer, backend="workbench")
            found, wanted = (f(x, src_key_padding_mask=mask) for f in (compiled, layer))
            torch.testing.assert_close(found[:, :3], wanted[:, :3])


def test_constants_of_a_graph_are_literals(torch):
    def masked(x):
        mask = x.new_zeros((4, 4))
        mask[:2, :2] = 3
        return x + mask.masked_fill(mask != 0, -100.0)

    x = torch.randn(4, 4)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(masked, backend="workbench")(x), masked(x))


def test_integers_are_returned_as_integers(torch):
    lengths = torch.compile(
        lambda x: (x.shape[0] * 2, x + x.shape[0]), backend="workbench", dynamic=True
    )
    for n in (3, 5):
        double, shifted = lengths(torch.ones(n))
        assert type(double) is int
        assert double == 2 * n
        assert torch.equal(shifted, torch.full((n,), 1.0 + n))
