"""Random numbers and dropout, which are other numbers than PyTorch's, of the same distribution."""

import numpy as np
import pytest

import workbench as wb

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

COUNT = 4000


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    wb.torch.clear()
    return torch


def _module(torch, function):
    class Net(torch.nn.Module):
        def forward(self, *inputs):
            return function(*inputs)

    return Net()


DRAWN = {
    "bernoulli": lambda torch, x: torch.bernoulli(x * 0.3),
    "alpha_dropout": lambda torch, x: torch.nn.functional.alpha_dropout(x, 0.2, training=True),
    "dropout2d": lambda torch, x: torch.nn.functional.dropout2d(x.reshape(1, -1, 1, 1), 0.25),
    "exponential": lambda torch, x: torch.empty_like(x).exponential_(2.0),
    "uniform": lambda torch, x: torch.empty_like(x).uniform_(2, 4),
    "normal": lambda torch, x: torch.empty_like(x).normal_(1, 2),
    "normal around": lambda torch, x: torch.normal(x * 3, 0.5),
    "randint": lambda torch, x: torch.randint(2, 8, x.shape) + x,
    "randint_like": lambda torch, x: torch.randint_like(x, 8),
    "randint_like from": lambda torch, x: torch.randint_like(x, -3, 8),
    "randn": lambda torch, x: torch.randn_like(x) + x,
}
"""Functions of a vector of ones whose results are random."""


@pytest.mark.parametrize("name", DRAWN)
def test_numbers_have_the_distribution_of_eager(torch, name):
    x = torch.ones(COUNT)
    net = _module(torch, lambda x: DRAWN[name](torch, x))
    wanted = net(x).numpy().ravel()
    exported = wb.compile(wb.from_torch(net, (x,)), "cpu").run({"inputs_0": x.numpy()})
    compiled = torch.compile(net, backend="workbench", fullgraph=True)
    for found in (exported["output"].ravel(), compiled(x).numpy().ravel()):
        spread = wanted.std()
        assert abs(found.mean() - wanted.mean()) < 0.1 * spread
        assert abs(found.std() - spread) < 0.1 * spread
        assert set(found) == set(wanted) or len(set(wanted)) > 100
    assert not np.array_equal(compiled(x), compiled(x))


def _attention(torch, p, **options):
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, dropout_p=p, **options
    )


@pytest.mark.parametrize("door", ["exported", "compiled"])
def test_attention_drops_a_share_of_its_weights(torch, door):
    net = _module(torch, _attention(torch, 0.3, is_causal=True))
    q, k = torch.randn(2, 3, 16, 8), torch.randn(2, 3, 16, 8)
    v = torch.eye(16).expand(2, 3, 16, 16).contiguous()  # the results are the weights
    if door == "exported":
        build = wb.compile(wb.from_torch(net, (q, k, v)), "cpu")
        given = dict(zip(build.source.parameters, (q.numpy(), k.numpy(), v.numpy()), strict=True))
        found = torch.from_numpy(build.run(given, progress=False)["output"])
    else:
        found = torch.compile(net, backend="workbench", fullgraph=True)(q, k, v)
    whole = _attention(torch, 0.0, is_causal=True)(q, k, v)
    kept = found != 0
    torch.testing.assert_close(found, whole * kept / 0.7)
    assert abs(float(kept[whole != 0].float().mean()) - 0.7) < 0.05


def test_gradients_of_attention_take_the_same_mask(torch):
    net = torch.compile(_module(torch, _attention(torch, 0.3)), backend="workbench", fullgraph=True)
    q, k, v = (torch.randn(2, 3, 16, 16, requires_grad=True) for _ in range(3))
    eye = torch.eye(16).expand(2, 3, 16, 16).contiguous()
    torch.manual_seed(1)
    kept = net(q, k, eye).detach() != 0
    torch.manual_seed(1)
    given = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    found = torch.autograd.grad(net(q, k, v), (q, k, v), given)
    weights = torch.softmax(q @ k.transpose(-1, -2) / 4, -1) * kept / 0.7
    wanted = torch.autograd.grad(weights @ v, (q, k, v), given)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_too_many_integers_are_refused(torch):
    net = _module(torch, lambda x: torch.randint(1 << 30, x.shape) + x)
    with pytest.raises(wb.WorkbenchError, match="integers from 0 to 1073741824; expected 1 to"):
        wb.from_torch(net, (torch.ones(3),))
