"""Tensors of a CUDA device: read in place, in PyTorch's stream; inference, training and open lengths."""

import numpy as np
import pytest

import workbench as wb

pytestmark = [pytest.mark.torch, pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def torch():
    import torch

    from tests.torch.agreement import declare_backend

    declare_backend()
    assert torch.cuda.is_available(), "these tests need torch with CUDA, and a GPU"
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wb.torch.clear()
    return torch


def _classifier(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.LayerNorm(128), nn.Linear(128, 10),
    ).cuda()  # fmt: skip


def test_inference_stays_on_the_device(torch):
    net, x = _classifier(torch).eval(), torch.randn(4, 3, 16, 16, device="cuda")
    with torch.no_grad():
        found = torch.compile(net, backend="workbench")(x)
        assert found.device == x.device
        torch.testing.assert_close(found, net(x), rtol=1e-4, atol=1e-5)
    assert wb.torch.builds()[0].build.target.name == "gpu"


def test_inputs_are_read_in_place_and_results_are_not_copied(torch):
    from workbench.compat.torch.running import _on, _tensor
    from workbench.gpu.devices.registry import device

    x = torch.randn(64, 64, device="cuda")
    array = _on(device("cuda"), x)
    assert array.pointer == x.data_ptr()
    assert _tensor(array, x.device).data_ptr() == x.data_ptr()
    narrow = x.bfloat16()
    back = _tensor(_on(device("cuda"), narrow), x.device)
    assert back.dtype is torch.bfloat16
    assert back.data_ptr() == narrow.data_ptr()


def test_work_is_in_the_current_stream(torch):
    compiled = torch.compile(lambda x: x * 2 + 1, backend="workbench")
    x = torch.zeros(1 << 20, device="cuda")
    compiled(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.add_(3)
        found = compiled(x)
    stream.synchronize()
    torch.testing.assert_close(found, torch.full_like(found, 7))


def test_training_follows_eager(torch):
    def losses(compiled):
        torch.manual_seed(0)
        net = _classifier(torch)
        step = torch.compile(net, backend="workbench") if compiled else net
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        draw = torch.Generator(device="cuda").manual_seed(1)
        found = []
        for _ in range(6):
            x = torch.randn(6, 3, 16, 16, generator=draw, device="cuda")
            wanted = torch.randint(0, 10, (6,), generator=draw, device="cuda")
            loss = torch.nn.functional.cross_entropy(step(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(compiled=True), losses(compiled=False), 1e-3)


@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16"])
def test_attention_agrees(torch, type):
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    layer = layer.cuda().to(getattr(torch, type)).eval()
    x = torch.randn(2, 16, 64, device="cuda").to(getattr(torch, type))
    with torch.no_grad():
        found = torch.compile(layer, backend="workbench")(x)
        room = 1e-4 if type == "float32" else 0.05
        torch.testing.assert_close(found, layer(x), rtol=room, atol=room)


def test_one_graph_serves_many_lengths(torch):
    compiled = torch.compile(
        lambda x: torch.softmax(x @ x.T, -1), backend="workbench", dynamic=True
    )
    for n in (3, 5, 40):
        x = torch.randn(n, 4, device="cuda")
        torch.testing.assert_close(compiled(x), torch.softmax(x @ x.T, -1), rtol=1e-4, atol=1e-5)
    assert len(wb.torch.builds()) == 1


def test_strided_and_shifted_inputs_are_right(torch):
    compiled = torch.compile(lambda x, y: x + y, backend="workbench")
    whole = torch.randn(9, 8, device="cuda")
    x, y = whole[1:].T, whole.reshape(-1)[3:67].reshape(8, 8)
    torch.testing.assert_close(compiled(x, y), x + y)


def test_results_of_the_host_stay_there(torch):
    mixed = torch.compile(lambda x: (torch.arange(3) * 2, x + 1), backend="workbench")
    own, moved = mixed(torch.ones(4, device="cuda"))
    assert own.device.type == "cpu"
    assert own.tolist() == [0, 2, 4]
    assert moved.device.type == "cuda"


def test_a_program_is_a_module_of_the_device(torch):
    net = torch.nn.Linear(8, 4)
    module = wb.to_torch(wb.from_torch(net, (torch.randn(2, 8),)), target="gpu")
    x = torch.randn(2, 8)
    with torch.no_grad():
        torch.testing.assert_close(module(x.cuda()).cpu(), net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["if", "nested", "countdown", "scan", "map"])
def test_branches_and_loops_agree(torch, kind):
    from tests.torch.test_control_flow import KINDS, WIDTH, _leaves, _module

    net = _module(torch, KINDS[kind])
    x = torch.rand(5, WIDTH)
    with torch.no_grad():
        wanted = _leaves(torch, net(x))
        build = wb.compile(wb.from_torch(net, (x,)), "gpu")
        found = build.run({"x": x.numpy()}, progress=False).values()
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-4)
        if kind != "scan":  # whose first state is a tensor of the host
            compiled = torch.compile(net.cuda(), backend="workbench", fullgraph=True)
            results = torch.utils._pytree.tree_leaves(compiled(x.cuda()))
            for a, b in zip(results, wanted, strict=True):
                np.testing.assert_allclose(a.cpu() if hasattr(a, "cpu") else a, b, 1e-4, 1e-4)


def test_complex_tensors_go_in_and_out(torch):
    def turned(z, w):
        return z * w.conj() + 2j, (z * w).abs()

    z, w = (torch.view_as_complex(torch.randn(3, 4, 2, device="cuda")) for _ in range(2))
    for left in (z, z.conj(), z.T.contiguous().T):
        found = torch.compile(turned, backend="workbench", fullgraph=True)(left, w)
        for a, b in zip(found, turned(left, w), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_attention_drops_weights_and_trains(torch):
    attention = torch.nn.functional.scaled_dot_product_attention
    net = torch.compile(
        lambda q, k, v: attention(q, k, v, dropout_p=0.3), backend="workbench", fullgraph=True
    )
    q, k = (torch.randn(2, 3, 16, 8, device="cuda", requires_grad=True) for _ in range(2))
    v = torch.eye(16, device="cuda").expand(2, 3, 16, 16).contiguous()
    found = net(q, k, v)
    kept = (found != 0).detach()
    assert abs(float(kept.float().mean()) - 0.7) < 0.05
    given = torch.randn_like(found)
    weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) * kept / 0.7
    torch.testing.assert_close(found, weights, rtol=1e-4, atol=1e-5)
    for a, b in zip(
        torch.autograd.grad(found, (q, k), given),
        torch.autograd.grad(weights, (q, k), given),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
