"""Complex numbers as pairs of real ones: operators, Llama's rotary embeddings, inputs and outputs."""

from itertools import islice

import numpy as np
import pytest

import workbench as wb

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

OPERATORS = [
    "abs", "add", "addmm", "angle", "bmm", "cat", "complex", "conj", "cumsum", "div_no_rounding_mode",
    "einsum", "eq", "exp", "expand", "fft_fft", "fft_irfft2", "flip", "gather", "index_put",
    "index_select", "log", "mean", "mm", "mul", "ne", "neg", "norm", "polar", "real", "reciprocal",
    "roll", "sgn", "sqrt", "stack", "sub", "sum", "tril", "unfold", "view_as_complex", "view_as_real",
    "where",
]  # fmt: skip


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    wb.torch.clear()
    return torch


@pytest.mark.parametrize("name", OPERATORS)
def test_samples_of_operators_agree(torch, name):
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.torch.operators import outcome

    op = next(o for o in op_db if o.formatted_name == name)
    type = torch.complex64 if torch.complex64 in op.supported_dtypes("cpu") else torch.float32
    found = [outcome(op, type, s) for s in islice(op.sample_inputs("cpu", type), 5)]
    assert [o for o in found if o.kind not in {"agrees", "skipped"}] == []
    assert any(o.kind == "agrees" for o in found)


def _rotary(torch):
    """The embedding of positions as Llama's first code has it, trained with its projection."""

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            angles = torch.outer(torch.arange(16.0), 10000 ** (-torch.arange(0, 8, 2) / 8))
            turns = torch.polar(torch.ones_like(angles), angles)
            self.register_buffer("turns", turns, persistent=False)
            self.query = torch.nn.Linear(16, 16)

        def forward(self, x):
            batch, length, _ = x.shape
            q = self.query(x).view(batch, length, 2, 4, 2)
            turned = torch.view_as_complex(q) * self.turns[:length].view(1, length, 1, 4)
            return torch.view_as_real(turned).flatten(2)

    return Rotary()


def test_rotary_embeddings_agree_and_train(torch):
    net, x = _rotary(torch), torch.randn(2, 5, 16)
    wanted = net(x)
    wanted.square().sum().backward()
    gradient = net.query.weight.grad.clone()
    net.zero_grad()
    program = wb.from_torch(net, (x,))
    shapes = [i.shape for i in program.main if i.literal is not None and "turns" in i.sources]
    assert [s.lens for s in shapes] == [(16, 4, 2)]
    for target in ("ref", "cpu", "gpu"):
        found = wb.compile(program, target).run({"x": x.numpy()}, progress=False)["output"]
        np.testing.assert_allclose(found, wanted.detach(), 1e-5, 1e-5)
    compiled = torch.compile(net, backend="workbench", fullgraph=True)(x)
    torch.testing.assert_close(compiled, wanted)
    compiled.square().sum().backward()
    torch.testing.assert_close(net.query.weight.grad, gradient)


def test_complex_inputs_and_outputs_are_pairs_in_a_program_and_tensors_in_a_graph(torch):
    class Net(torch.nn.Module):
        def forward(self, z, w):
            return z * w.conj() + 2j, (z * w).abs()

    z, w = (torch.view_as_complex(torch.randn(3, 4, 2)) for _ in range(2))
    wanted = Net()(z, w)
    program = wb.from_torch(Net(), (z, w))
    assert [tuple(s.lens) for s in program.parameters.values()] == [(3, 4, 2), (3, 4, 2)]
    given = {n: torch.view_as_real(v).numpy() for n, v in zip("zw", (z, w), strict=True)}
    found = list(wb.compile(program, "cpu").run(given, progress=False).values())
    np.testing.assert_allclose(found[0], torch.view_as_real(wanted[0]), 1e-5, 1e-5)
    np.testing.assert_allclose(found[1], wanted[1], 1e-5, 1e-5)
    for left in (z, z.conj(), z.T.contiguous().T):
        compiled = torch.compile(Net(), backend="workbench", fullgraph=True)(left, w)
        torch.testing.assert_close(compiled, Net()(left, w))


def test_an_operator_that_takes_no_complex_numbers_is_refused(torch):
    net = torch.nn.Sequential(torch.nn.Tanh())
    z = torch.view_as_complex(torch.randn(3, 2))
    with pytest.raises(wb.WorkbenchError, match=r"aten\.tanh.*complex numbers"):
        wb.from_torch(net, (z,))


def test_a_padded_number_has_no_imaginary_part(torch):
    def padded(z):
        return torch.view_as_real(torch.constant_pad_nd(torch.view_as_complex(z), [1, 1], 3.0))

    z = torch.randn(4, 2)
    torch.testing.assert_close(torch.compile(padded, backend="workbench")(z), padded(z))
