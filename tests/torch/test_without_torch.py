"""Without PyTorch: errors that name the extra, and what needs no torch."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import workbench as wb
from workbench.compiler.errors import ModelError
from workbench.compiler.torch.provenance import Place, described, line_text, scope_of

STACK = """File "/models/net.py", line 12, in forward
    y = self.conv(x)
  File "/env/site-packages/torch/nn/modules/conv.py", line 565, in forward
    return self._conv_forward(input, self.weight, self.bias)
"""


def _node(**meta):
    return SimpleNamespace(
        op="call_function", name="conv", target="aten.convolution.default", args=(None, [1, 2]),
        kwargs={}, all_input_nodes=[], meta=meta,
    )  # fmt: skip


@pytest.fixture
def no_torch(monkeypatch):
    for package in ("torch", "transformers", "safetensors"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("no_torch")
def test_a_missing_torch_is_an_error_that_names_the_extra():
    with pytest.raises(ModelError, match=r"'torch' is not installed.*graph-workbench\[torch\]"):
        wb.from_torch(object(), ())


@pytest.mark.usefixtures("no_torch")
def test_a_program_becomes_no_module_without_torch():
    program = wb.trace(lambda x: x.relu(), x=(2,))
    with pytest.raises(ModelError, match=r"graph-workbench\[torch\]"):
        wb.to_torch(program, target="ref")


@pytest.mark.usefixtures("no_torch")
def test_a_folder_needs_the_extra_and_a_configuration(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        wb.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        ModelError, match=r"'safetensors' is not installed.*graph-workbench\[torch\]"
    ):
        wb.from_pretrained(tmp_path)


def test_the_builds_of_torch_can_be_asked_for_without_loading_it():
    code = "import sys, workbench; print(len(workbench.torch.builds()), 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0", "False"]


def test_a_node_has_the_path_of_its_module_and_the_users_line():
    stack = {"a": ("L['self'].layer1._modules['0'].conv", "Conv2d")}
    node = _node(stack_trace=STACK, nn_module_stack=stack)
    assert scope_of(node) == ("layer1", "0", "conv")
    assert line_text(node) == "net.py:12: y = self.conv(x)"
    assert Place().source(node).attributes == "net.py:12: y = self.conv(x), 1=[1, 2]"
    where = "in module 'layer1.0.conv' at net.py:12: y = self.conv(x)"
    assert described(node) == f"aten.convolution.default (conv) {where}"


def test_a_node_without_a_stack_is_described_by_its_operator():
    assert described(_node()) == "aten.convolution.default (conv)"
    assert Place().source(_node()).scope == ()


def test_lines_that_torch_wrote_are_not_the_users():
    generated = 'File "<eval_with_key>.13", line 5, in forward\n    gt = sum_1 > 0\n'
    assert line_text(_node(stack_trace=STACK + generated)) == "net.py:12: y = self.conv(x)"
    assert not line_text(_node(stack_trace=generated))


def test_a_node_of_an_inner_graph_is_named_by_the_node_that_runs_it():
    outer = _node(nn_module_stack={"a": ("head", "Head")})
    place = Place().inner(outer, "cond.then").inner(_node(), "scan.body")
    source = place.source(_node())
    assert source.name == "cond.then.scan.body.conv"
    assert source.scope == ("head",)
