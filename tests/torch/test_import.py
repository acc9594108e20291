"""Modules of PyTorch as programs: lineage, memory, state, open lengths, and what is refused."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import ModelError

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    return torch


def _net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            pooled = torch.relu(self.body(x)).mean((2, 3))
            return {"logits": self.head(pooled), "rest": (pooled, x.shape[0])}

    return Net()


def test_results_have_the_names_of_the_structure(torch):
    x = torch.randn(3, 3, 8, 8)
    net = _net(torch).eval()
    program = wb.from_torch(net, (x,))
    assert program.output_names == ("logits", "rest.output0", "rest.output1")
    found = wb.compile(program, "cpu").run({"x": x.numpy()})
    wanted = net(x)
    np.testing.assert_allclose(found["logits"], wanted["logits"].detach(), 1e-5, 1e-6)
    np.testing.assert_allclose(found["rest.output0"], wanted["rest"][0].detach(), 1e-5, 1e-6)
    assert int(found["rest.output1"]) == 3


def test_instructions_come_from_a_module_and_a_line(torch):
    program = wb.from_torch(_net(torch).eval(), (torch.randn(1, 3, 8, 8),))
    (conv,) = [i for i in program.main if i.name == "convolution"]
    (name,) = conv.sources
    source = program.source_nodes[name]
    assert source.scope == ("body", "0")
    assert source.op_type == "aten.convolution.default"
    assert "test_import.py" in source.attributes
    assert "pooled = torch.relu(self.body(x))" in source.attributes
    assert program.tensors[name] in {i.id for i in program.main}


def test_weights_share_their_memory(torch):
    net = torch.nn.Linear(64, 32)
    program = wb.from_torch(net, (torch.randn(2, 64),))
    weights = net.weight.detach().numpy()
    literals = [i.literal.numpy() for i in program.main if i.literal is not None]
    assert any(np.shares_memory(array, weights) for array in literals)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn"])
def test_narrow_weights_keep_their_bits_and_memory(torch, name):
    from workbench.compiler.torch.tensors import array_of, tensor_of

    tensor = torch.randn(5, 3).to(getattr(torch, name))
    array = array_of(tensor)
    assert array.ctypes.data == tensor.data_ptr()
    back = tensor_of(array)
    assert back.dtype is tensor.dtype
    assert torch.equal(back.view(torch.uint8), tensor.view(torch.uint8))


def test_buffers_that_forward_changes_are_parameters_and_outputs(torch):
    net = _net(torch)
    x = torch.randn(6, 3, 8, 8)
    program = wb.from_torch(net, (x,))
    assert set(program.updates) == {
        f"body.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")
    }
    state = wb.compile(program, "cpu").stateful(program.initial)
    for _ in range(3):
        state.run({"x": x.numpy()})
        net(x)
    np.testing.assert_allclose(state["body.1.running_var"], net.body[1].running_var, 1e-5)
    assert state["body.1.num_batches_tracked"] == 3


def test_open_lengths_are_symbols_with_their_ranges(torch):
    class Pairs(torch.nn.Module):
        def forward(self, x, y):
            both = torch.cat([x, y], 1)
            return torch.softmax(both @ both.transpose(1, 2), -1).reshape(x.shape[0], -1)

    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", min=2, max=9)
    shapes = {"x": {0: batch, 1: length}, "y": {0: batch, 1: length}}
    given = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    program = wb.from_torch(Pairs(), given, dynamic_shapes=shapes)
    lengths = program.parameters["x"].dims
    assert [d.is_symbolic for d in lengths] == [True] * 3
    assert (lengths[0].max, lengths[1].min, lengths[1].max) == (8, 2, 9)
    for target in ("ref", "cpu"):
        build = wb.compile(program, target)
        for batch, size in ((1, 2), (5, 9), (8, 3)):
            x, y = torch.randn(batch, size, 4), torch.randn(batch, size, 4)
            (found,) = build.run({"x": x.numpy(), "y": y.numpy()}).values()
            np.testing.assert_allclose(found, Pairs()(x, y), 1e-5, 1e-6)


def test_an_unknown_operator_is_refused_with_module_and_line(torch):
    class Deep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Module()
            self.inner.forward = lambda x: torch.linalg.eigvals(x).real

        def forward(self, x):
            return self.inner(x)

    with pytest.raises(ModelError, match=r"linalg_eig.*(inner|test_import\.py)"):
        wb.from_torch(Deep(), (torch.randn(3, 3),))


def test_what_export_refuses_is_an_error_of_the_model(torch):
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(ModelError, match=r"torch\.export: "):
        wb.from_torch(Branches(), (torch.ones(3),))


def test_an_operator_can_be_taught(torch):
    from workbench.compiler.torch import torch_op
    from workbench.compiler.torch.registry import _HANDLERS

    @torch_op("aten.lgamma")
    def lgamma(node, x):
        return node.apply("mul", x, 2, type=node.dtype())

    class Taught(torch.nn.Module):
        def forward(self, x):
            return torch.lgamma(x)

    try:
        program = wb.from_torch(Taught(), (torch.ones(3),))
    finally:
        del _HANDLERS["aten.lgamma"]
    (found,) = wb.compile(program, "ref").run({"x": np.ones(3, np.float32)}).values()
    np.testing.assert_array_equal(found, [2, 2, 2])


def test_random_numbers_of_an_export_are_uniform_and_normal(torch):
    class Drawn(torch.nn.Module):
        def forward(self, x):
            return torch.rand_like(x), torch.randn_like(x)

    program = wb.from_torch(Drawn(), (torch.ones(4000),))
    flat, bell = wb.compile(program, "cpu").run({"x": np.ones(4000, np.float32)}).values()
    assert 0 <= flat.min() < 0.01
    assert 0.99 < flat.max() < 1
    assert abs(bell.mean()) < 0.06
    assert abs(bell.std() - 1) < 0.04


def test_lengths_that_a_run_computes_may_be_zero(torch):
    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.nonzero(x > 0) * 2

    program = wb.from_torch(Chosen(), (torch.tensor([[1.0, -1.0], [2.0, 3.0]]),))
    build = wb.compile(program, "cpu")
    for value in ([[1.0, -1.0], [2.0, 3.0]], [[-1.0, -1.0], [-1.0, -1.0]]):
        x = np.array(value, np.float32)
        (found,) = build.run({"x": x}).values()
        np.testing.assert_array_equal(found, np.argwhere(x > 0) * 2)


def test_spectra_are_filtered_inside_of_a_program_and_returned_as_pairs(torch):
    class Filtered(torch.nn.Module):
        def forward(self, x, weights):
            spectrum = torch.fft.rfft(x, norm="ortho")
            return torch.fft.irfft(
                spectrum * torch.view_as_complex(weights), n=x.shape[-1], norm="ortho"
            )

    class Spectrum(torch.nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x)

    x, weights = torch.randn(3, 9), torch.randn(5, 2)
    program = wb.from_torch(Filtered(), (x, weights))
    (found,) = wb.compile(program, "cpu").run({"x": x.numpy(), "weights": weights.numpy()}).values()
    np.testing.assert_allclose(found, Filtered()(x, weights), 1e-4, 1e-5)
    spectrum = wb.compile(wb.from_torch(Spectrum(), (x,)), "cpu").run({"x": x.numpy()})
    wanted = torch.view_as_real(torch.fft.rfft(x))
    np.testing.assert_allclose(spectrum["output"], wanted, 1e-4, 1e-5)


def test_an_exported_program_is_imported_as_it_is(torch):
    net, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    exported = torch.export.export(net, (x,))
    program = wb.from_torch(exported)
    (found,) = wb.compile(program, "cpu").run({"input": x.numpy()}).values()
    np.testing.assert_allclose(found, net(x).detach(), 1e-5, 1e-6)


def test_an_input_that_forward_changes_is_an_output(torch):
    class Counter(torch.nn.Module):
        def forward(self, x, seen):
            seen.add_(x.sum())
            return x * seen

    program = wb.from_torch(Counter(), (torch.ones(3), torch.zeros(())))
    assert program.updates == {"seen": 1}
    assert program.output_names == ("output", "next_seen")
    found = wb.compile(program, "ref").run({"x": np.ones(3, np.float32), "seen": np.float32(4)})
    assert float(found["next_seen"]) == 7
    np.testing.assert_array_equal(found["output"], [7, 7, 7])


def test_shared_weights_are_one_literal(torch):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(6, 4)
            self.head = torch.nn.Linear(4, 6, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            return self.head(self.table(tokens))

    program = wb.from_torch(Tied(), (torch.tensor([1, 5]),))
    weights = [i for i in program.main if i.literal is not None and i.shape.lens == (6, 4)]
    assert len(weights) == 1


def test_weights_have_the_names_of_the_module_and_train_by_them(torch):
    net, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()), torch.randn(5, 4)
    program = wb.from_torch(net, (x,))
    assert program.source_nodes["0.weight"].op_type == "Parameter"
    assert program.source_nodes["0.weight"].scope == ("0",)
    loss = wb.extend(program, lambda y: (y * y).mean())
    step = wb.training_step(loss, None, ["0.weight", "0.bias"])
    found = wb.compile(step, "ref").run({"input": x.numpy()} | step.initial)
    net(x).square().mean().backward()
    np.testing.assert_allclose(found["grad_0.weight"], net[0].weight.grad, 1e-4, 1e-6)
