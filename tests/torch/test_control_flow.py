"""Branches and loops of PyTorch as modules: results, gradients, lineage, open lengths and random numbers."""

import numpy as np
import pytest

import workbench as wb

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

WIDTH = 4


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    wb.torch.clear()
    return torch


def _branch(torch, layer):
    def forward(x):
        return torch.cond(x.sum() > 0, lambda x: layer(x).relu(), lambda x: layer(x * 2) - 1, (x,))

    return forward


def _while(torch, layer):
    loop = torch._higher_order_ops.while_loop

    def forward(x):
        def step(k, x):
            return k + 1, torch.cond(x.sum() > 0, layer, lambda x: x * 2 + 1, (x,))

        return loop(lambda k, x: (k < 7) & (x.abs().sum() < 50), step, (torch.tensor(0), x))

    return forward


def _countdown(torch, layer):
    loop = torch._higher_order_ops.while_loop

    def forward(x):
        return loop(lambda k, _: k > -3, lambda k, x: (k - 1, layer(x) - k), (2, x))

    return forward


def _scan(torch, layer):
    from torch._higher_order_ops.scan import scan

    def forward(x):
        def step(state, x):
            state = (layer(state) + x).tanh()
            return state, state.sum(-1)

        return scan(step, torch.zeros(WIDTH), x)

    return forward


def _map(torch, layer):
    from torch._higher_order_ops.map import map as mapped

    return lambda x: mapped(lambda row, bias: layer(row) + bias, x, torch.ones(WIDTH))


KINDS = {"if": _branch, "nested": _while, "countdown": _countdown, "scan": _scan, "map": _map}


def _module(torch, make):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(WIDTH, WIDTH)
            self.run = make(torch, self.layer)

        def forward(self, x):
            return self.run(x)

    return Net().eval()


def _leaves(torch, value):
    found = torch.utils._pytree.tree_leaves(value)
    return [np.asarray(v.detach() if hasattr(v, "detach") else v) for v in found]


def _agree(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_branches_and_loops_agree_through_both_doors(torch, kind, sign):
    net, x = _module(torch, KINDS[kind]), sign * torch.rand(5, WIDTH)
    with torch.no_grad():  # of a loop that carries integers PyTorch can make no gradient
        wanted = _leaves(torch, net(x))
        program = wb.from_torch(net, (x,))
    assert {"if", "loop"} & {i.name for i in program.main}
    for target in ("ref", "cpu", "gpu"):
        _agree(wb.compile(program, target).run({"x": x.numpy()}, progress=False).values(), wanted)
    with torch.no_grad():
        _agree(_leaves(torch, torch.compile(net, backend="workbench", fullgraph=True)(x)), wanted)
    assert len(wb.torch.builds()) == 1


def test_a_loop_ends_by_its_condition(torch):
    net = _module(torch, _while)
    program = wb.from_torch(net, (torch.ones(2, WIDTH),))
    build = wb.compile(program, "cpu")
    counts = set()
    for scale in (0.1, 5.0, 100.0):
        x = torch.full((2, WIDTH), -scale)
        found = list(build.run({"x": x.numpy()}, progress=False).values())
        _agree(found, _leaves(torch, net(x)))
        counts.add(int(found[0]))
    assert len(counts) == 3


def test_instructions_of_a_body_have_the_users_line_and_their_own_source(torch):
    program = wb.from_torch(_module(torch, _while), (torch.ones(2, WIDTH),))
    assert set(program.modules) == {"main", "while_loop.body", "cond.then", "cond.else"}
    (dot,) = [i for i in program.modules["cond.then"] if i.name == "dot"]
    source = program.source_nodes[dot.sources[0]]
    assert source.name.startswith("while_loop.body.cond.then.")
    assert source.op_type == "aten.addmm.default"
    assert "test_control_flow.py" in source.attributes
    assert "eval_with_key" not in source.attributes


@pytest.mark.parametrize("kind", ["scan", "map"])
def test_loops_over_rows_keep_open_lengths(torch, kind):
    net = _module(torch, KINDS[kind])
    rows = torch.export.Dim("rows", min=2, max=20)
    program = wb.from_torch(net, (torch.rand(5, WIDTH),), dynamic_shapes=({0: rows},))
    build = wb.compile(program, "cpu")
    for n in (2, 9, 20):
        x = torch.rand(n, WIDTH)
        _agree(build.run({"x": x.numpy()}, progress=False).values(), _leaves(torch, net(x)))


def test_a_length_decides_a_branch(torch):
    def make(torch, layer):
        return lambda x: torch.cond(x.shape[0] > 4, layer, lambda x: x + 1, (x,))

    net = _module(torch, make)
    rows = torch.export.Dim("rows", min=2, max=20)
    program = wb.from_torch(net, (torch.rand(5, WIDTH),), dynamic_shapes=({0: rows},))
    build = wb.compile(program, "cpu")
    for n in (4, 5):
        x = torch.rand(n, WIDTH)
        _agree(build.run({"x": x.numpy()}, progress=False).values(), _leaves(torch, net(x)))


def _loss(make):
    def wrapped(torch, layer):
        run = make(torch, layer)
        return lambda x: torch.utils._pytree.tree_leaves(run(x))[-1].square().sum()

    return wrapped


@pytest.mark.parametrize("kind", ["if", "scan", "map"])
def test_gradients_agree_through_both_doors(torch, kind):
    net, x = _module(torch, _loss(KINDS[kind])), torch.rand(5, WIDTH)
    net(x).backward()
    wanted = {n: p.grad.clone() for n, p in net.named_parameters()}
    net.zero_grad()
    step = wb.training_step(wb.from_torch(net, (x,)), None, list(wanted))
    given = {"x": x.numpy(), **{n: p.detach().numpy() for n, p in net.named_parameters()}}
    found = wb.compile(step, "cpu").run(given, progress=False)
    torch.compile(net, backend="workbench", fullgraph=True)(x).backward()
    assert [g.kind for g in wb.torch.builds()] == ["forward", "backward"]
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(found[f"grad_{name}"], wanted[name], 1e-4, 1e-5)
        np.testing.assert_allclose(parameter.grad, wanted[name], 1e-4, 1e-5)


def test_the_gradient_of_a_loop_with_a_condition(torch):
    def make(torch, layer):
        loop = torch._higher_order_ops.while_loop

        def forward(x):
            found = loop(
                lambda k, _: k > -3, lambda k, x: (k - 1, layer(x) - k), (torch.tensor(2), x)
            )
            return found[1].square().sum()

        return forward

    net, x = _module(torch, make), torch.rand(2, WIDTH)
    step = wb.training_step(wb.from_torch(net, (x,)), None, ["layer.weight"])
    given = {"x": x.numpy(), "layer.weight": net.layer.weight.detach().numpy()}
    found = wb.compile(step, "cpu").run(given, progress=False)["grad_layer.weight"]
    y = x
    for k in range(2, -3, -1):
        y = net.layer(y) - k
    y.square().sum().backward()
    np.testing.assert_allclose(found, net.layer.weight.grad, 1e-4, 1e-4)
    with pytest.raises(Exception, match="while_loop_stack_output"):  # an operator for gradients
        torch.compile(net, backend="workbench", fullgraph=True)(x).backward()


def test_each_iteration_draws_other_random_numbers(torch):
    from torch._higher_order_ops.scan import scan

    def make(torch, _):
        def step(state, x):
            shaken = torch.cond(
                state.sum() > 1,
                torch.rand_like,
                lambda x: torch.rand_like(x) + 0,
                (x,),
            )
            return state + 1, shaken

        return lambda x: scan(step, torch.zeros(2), x)[1]

    net, x = _module(torch, make), torch.ones(4, 2000)
    found = wb.compile(wb.from_torch(net, (x,)), "cpu").run({"x": x.numpy()}, progress=False)
    others = np.corrcoef(found["output"]) - np.eye(4)
    assert np.abs(others).max() < 0.1
    assert 0.45 < found["output"].mean() < 0.55


def test_an_unknown_operator_in_a_branch_is_named(torch):
    def make(torch, _):
        return lambda x: torch.cond(x.sum() > 0, torch.logdet, lambda x: x.sum(), (x,))

    with pytest.raises(wb.WorkbenchError, match=r"cond.*linalg_slogdet.*test_control_flow\.py"):
        wb.from_torch(_module(torch, make), (torch.rand(WIDTH, WIDTH),))


def test_what_pytorch_refuses_is_an_error_of_the_import(torch):
    def make(torch, _):
        return lambda x: torch.cond(x.sum() > 0, lambda x: x.reshape(-1), lambda x: x.sum(0), (x,))

    with pytest.raises(wb.WorkbenchError, match=r"torch\.export: "):
        wb.from_torch(_module(torch, make), (torch.rand(1, WIDTH),))
