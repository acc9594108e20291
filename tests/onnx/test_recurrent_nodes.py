"""Recurrent nodes beyond a table of single nodes."""

from dataclasses import replace

import numpy as np
import pytest

import workbench as wb
from tests.onnx.cases_recurrent import GATES, LENS, network
from tests.onnx.models import imported, peer, same
from workbench.compiler.errors import ModelError, WorkbenchError
from workbench.compiler.onnx import parse_onnx
from workbench.compiler.run import reference

every_network = pytest.mark.parametrize("op", GATES)


def swapped(case):
    """The same network with batches first."""
    turned = [
        np.swapaxes(x, 0, 1).copy() if i in (0, 5, 6) else x for i, x in enumerate(case.inputs)
    ]
    return replace(case, inputs=turned, attributes={**case.attributes, "layout": 1})


@every_network
def test_batches_first_with_sequences_of_several_lens(op):
    case = network(op, directions=2, direction="bidirectional")
    every, *last = peer(case.model(), case.arrays())
    wanted = [every.transpose(2, 0, 1, 3), *[s.transpose(1, 0, 2) for s in last]]
    replace(swapped(case), expected=wanted).check()


@every_network
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_lens_and_weights_that_are_known_at_import(op, target):
    """Everything is a literal but the sequence, then even that: nothing is folded by halves."""
    for fixed in (range(1, 8), range(8)):
        case = replace(network(op, directions=2, direction="bidirectional"), fixed=fixed)
        given = {} if 0 in fixed else {"x0": case.inputs[0]}
        result = wb.compile(parse_onnx(case.model()), target=target).run(given)
        for found, want in zip(result.values(), peer(case.model(), given), strict=True):
            same(found, want)


@every_network
def test_float64_runs_reach_double_precision(op):
    case = network(op, lens=LENS)
    wide = replace(case, inputs=[x if x is LENS else x.astype(np.float64) for x in case.inputs])
    narrow = reference.run(parse_onnx(case.model()), case.arrays(), float64=True)
    double = reference.run(parse_onnx(wide.model()), wide.arrays())
    for a, b in zip(narrow, double, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@every_network
@pytest.mark.parametrize("type", ["fp16", "bf16"])
def test_a_narrowed_network_keeps_its_last_states(op, type):
    from workbench.compiler.passes.precision.quantize_float import QuantizeFloat

    case = network(op, directions=2, direction="bidirectional")
    program = parse_onnx(case.model())
    QuantizeFloat(type=type).apply(program)
    found = wb.compile(program).run(case.arrays())
    for have, want in zip(found.values(), peer(case.model(), case.arrays()), strict=True):
        same(have, want, 0.1 if type == "bf16" else 0.02)


def test_the_text_is_migraphx_s():
    text = imported(network("LSTM", lens=None, h=None, c=None, peephole=None).model())
    attributes = (
        "hidden_size=5,actv_func={sigmoid, tanh, tanh},direction=forward,clip=0,input_forget=0"
    )
    assert f"lstm[{attributes}](x0,x1,x2,x3," in text
    assert "float_type, {4, 1, 4, 5}, {20, 20, 5, 1}" in text
    assert "rnn_last_hs_output(" in text
    assert "rnn_last_cell_output(" in text


@every_network
@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"direction": "sideways"}, "direction='sideways'"),
        ({"hidden_size": 6}, "hidden_size=6"),
        ({"activations": ["Cosine"] * 3}, "expected"),
        ({"activation_alpha": [0.5]}, "1 values in activation_alpha; expected at most 0"),
        ({"activation_beta": [0.5]}, "1 values in activation_beta; expected at most 0"),
        ({"clip": -1.0}, "clip=-1"),
    ],
)
def test_what_cannot_be_honoured_is_refused(op, attributes, message):
    if "activations" in attributes:
        attributes = {"activations": ["Cosine"] * {"RNN": 1, "GRU": 2, "LSTM": 3}[op]}
        message = "activation 'cosine' is not supported; expected one of affine, elu, hardsigmoid"
    with pytest.raises(ModelError, match=message):
        parse_onnx(network(op, **attributes).model())


@every_network
@pytest.mark.parametrize("name", ["w", "bias", "h"])
def test_operands_of_wrong_lens_are_refused(op, name):
    with pytest.raises(ModelError, match=r"expected lens"):
        parse_onnx(network(op, **{name: np.zeros((1, 7, 9), np.float32)}).model())


@every_network
@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_sequence_without_an_end_is_refused(op, wrong):
    case = network(op, lens=np.array([1, wrong, 2, 3], np.int32))
    with pytest.raises(WorkbenchError, match=f"a sequence of {wrong} steps; expected 0 to 4"):
        wb.compile(parse_onnx(case.model())).run(case.arrays())
