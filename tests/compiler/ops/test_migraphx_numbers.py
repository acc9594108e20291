"""Numbers that MIGraphX's reference gives: one case a fact, written from its documented meaning."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.shape import Dim, Shape

INF, NAN = np.inf, np.nan


def f(*values: float) -> Any:
    return np.array(values, np.float32)


def i(*values: int) -> Any:
    return np.array(values, np.int32)


def n(*values: int) -> Any:
    return np.array(values, np.int64)


def run(op: str, inputs: list[Any], **attributes: Any) -> list[Any]:
    """The results of one operation on literals; all parts of a tuple."""
    program = wb.Program()
    main = program.main
    operands = [main.add_literal(x) for x in inputs]
    result = main.add(op, *operands, **attributes)
    if result.shape.is_tuple:
        count = len(result.shape.subs or ())
        main.add_return(*[main.add("get_tuple_elem", result, index=k) for k in range(count)])
    return list(wb.compile(program, "ref").run({}).outputs)


def same(found: list[Any], expected: tuple[Any, ...]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        wanted = np.asarray(b)
        assert np.shape(a) == wanted.shape or wanted.ndim == 1
        np.testing.assert_allclose(
            np.asarray(a, np.float64).ravel(), wanted.astype(np.float64).ravel(), 1e-4, 1e-6
        )


ROWS = np.arange(9, dtype=np.float32).reshape(3, 3)
SQUARE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
LINE = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
ONE = {"stride": [1], "padding": [0], "dilations": [1]}
TWO = {"stride": [2], "padding": [0], "dilations": [1]}
BOXES = np.array(
    [[[0, y, 1, y + 1] for y in (0, 0.1, -0.1, 10, 10.1, 100)]], np.float32
)  # pairs that overlap
CENTRED = np.array([[[0.5, y, 1, 1] for y in (0.5, 0.6, 0.4, 10.5, 10.6, 100.5)]], np.float32)
SCORES = f(0.9, 0.75, 0.6, 0.95, 0.5, 0.3).reshape(1, 1, 6)

CASES: list[tuple[str, list[Any], dict[str, Any], tuple[Any, ...]]] = [
    ("nearbyint", [f(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)], {}, ([-2, -2, 0, 0, 2, 2],)),
    ("not", [i(-1, 0, 1)], {}, ([0, 1, 0],)),
    ("isinf", [f(INF, -INF, NAN, 1)], {}, ([1, 1, 0, 0],)),
    ("sqrt", [i(10)], {}, ([3],)),
    ("div", [i(-7, 7, -7), i(3, 3, 2)], {}, ([-2, 2, -3],)),
    ("mod", [i(-3, -7, 7, 2), i(2, 4, -4, 3)], {}, ([1, 1, -1, 2],)),
    ("fmod", [f(-7, 7, -3.5), f(2, -2, 2)], {}, ([-1, 1, -1.5],)),
    ("prelu", [f(-1, 3, 0), f(2, 2, 2)], {}, ([-2, 3, 0],)),
    ("logical_xor", [f(0, 0, 2, 2), f(0, 3, 0, 3)], {}, ([0, 1, 1, 0],)),
    ("where", [np.array([False]), f(1, 2), f(4, 5)], {}, ([4, 5],)),
    ("convert", [f(300, -300, -1.7, NAN)], {"target_type": "int8"}, ([127, -128, -1, 0],)),
    (
        "bit_cast",
        [np.array([23, -3, 0, -1], np.int8)],
        {"target_type": "uint8"},
        ([23, 253, 0, 255],),
    ),
    (
        "bit_cast",
        [np.array([26, 3, 96, -1.25], ml_dtypes.float8_e4m3fn)],
        {"target_type": "fp8e4m3fnuz"},
        ([13, 1.5, 48, -0.625],),
    ),
    ("quantizelinear", [f(-1, 1000, 6), f(2, 2, 2)], {}, ([0, 255, 3],)),
    (
        "quantizelinear",
        [f(-1000, 600, 3, -6, 550), f(4, 6, 4, 6, 6), np.zeros(5, np.int8)],
        {},
        ([-128, 100, 1, -1, 92],),
    ),
    ("reduce_mean", [i(1, 2, 4)], {"axes": [0]}, ([2],)),
    ("reduce_any", [np.array([[0, 2], [0, 0]], np.float32)], {"axes": [1]}, ([[1], [0]],)),
    ("reduce_sum", [ROWS, n(0, 1)], {"axes": []}, ([[36]],)),
    ("reduce_sum", [ROWS, n()], {"axes": []}, (ROWS,)),
    ("argmax", [f(1, 3, 3)], {"axis": 0, "select_last_index": True}, ([2],)),
    (
        "prefix_scan_sum",
        [f(1, 2, 3, 4, 5, 6)],
        {"axis": 0, "exclusive": True, "reverse": True},
        ([20, 18, 15, 11, 6, 0],),
    ),
    ("topk", [f(1, 3, 0, 3)], {"k": 3, "axis": 0, "largest": True}, ([3, 3, 1], [1, 3, 0])),
    (
        "topk",
        [f(1, 3, 0, 3), n(9, 7, 8, 5)],
        {"k": 2, "axis": 0, "largest": True},
        ([3, 3], [5, 7]),
    ),
    ("nonzero", [np.array([[0, 1], [NAN, 2]], np.float32)], {}, ([[0, 1, 1, 0], [1, 0, 1, 0]],)),
    ("unique", [f(3, 2, 1, 2)], {"sorted": False}, ([3, 2, 1], [0, 1, 2], [0, 1, 2, 1], [1, 2, 1])),
    (
        "onehot",
        [n(1, -1, 5), f(0, 1)],
        {"axis": -1, "depth": 3},
        ([[0, 1, 0], [0, 0, 1], [0, 0, 0]],),
    ),
    ("multinomial", [f(1, 2, 4).reshape(1, 3), f(0.25, 0.5).reshape(1, 2)], {}, ([[1, 2]],)),
    ("dynamic_range", [f(1), f(-0.5), f(-0.5)], {}, ([1, 0.5, 0],)),
    ("gathernd", [ROWS, np.array([[0], [2], [1]])], {"batch_dims": 1}, ([0, 5, 7],)),
    ("scatter_add", [f(1, 2, 3), n(-1, 2), f(2, 3)], {"axis": 0}, ([1, 2, 8],)),
    (
        "scatter_none",
        [f(1, 2, 3), n(1, 7), f(5, 6)],
        {"axis": 0, "skip_out_of_bounds": True},
        ([1, 5, 3],),
    ),
    ("scan_slice", [ROWS, n(0)], {"axis": 0, "direction": 1}, ([[6, 7, 8]],)),
    ("pad", [f(1, 2)], {"pads": [2, 1], "mode": 1}, ([1, 2, 1, 2, 1],)),
    ("pad", [f(1, 2, 3)], {"pads": [-1, -1]}, ([2],)),
    ("slice", [ROWS], {"axes": [0, 1], "starts": [1, 0], "ends": [9, -1]}, (ROWS[1:, :-1],)),
    ("slice", [ROWS, n(0), n(-1), n(0)], {}, (ROWS[:2],)),
    ("pooling", [LINE], {"mode": "max", "lengths": [2], "ceil_mode": True, **TWO}, ([1, 3, 4],)),
    (
        "pooling",
        [LINE],
        {"mode": "average", "lengths": [2], "ceil_mode": True, **TWO},
        ([0.5, 2.5, 4],),
    ),
    (
        "pooling",
        [LINE],
        {"mode": "average", "lengths": [2], "stride": [1], "padding": [0], "dilations": [2]},
        ([1, 2, 3],),
    ),
    ("pooling", [LINE], {"mode": "lpnorm", "lengths": [2], "lp_order": 0, **ONE}, ([1, 1, 1, 1],)),
    ("pooling", [SQUARE], {"mode": "average", "dyn_global": True}, ([7.5],)),
    (
        "convolution_backwards",
        [np.ones((1, 1, 2), np.float32), np.ones((1, 1, 2), np.float32)],
        {"padding": [0], "stride": [2], "dilation": [1]},
        ([1, 1, 1, 1],),
    ),
    (
        "nonmaxsuppression",
        [BOXES, SCORES, n(4), f(0.5), f(0.0)],
        {},
        ([[0, 0, 3], [0, 0, 0], [0, 0, 5], [0, 0, 0], [0, 0, 0], [0, 0, 0]],),
    ),
    (
        "nonmaxsuppression",
        [CENTRED, SCORES, n(6), f(0.5), f(0.0)],
        {"center_point_box": True, "use_dyn_output": True},
        ([[0, 0, 3], [0, 0, 0], [0, 0, 5]],),
    ),
    ("nonmaxsuppression", [BOXES, SCORES], {}, (np.zeros((6, 3)),)),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "expected"), CASES)
def test_numbers(
    op: str, inputs: list[Any], attributes: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    same(run(op, inputs, **attributes), expected)


@pytest.mark.parametrize(
    ("type", "seed", "expected"),
    [
        ("float32", n(0), [0.592844605, 0.844265759, 0.857945621]),
        ("uint16", f(0.1), [35967, 38852, 46870]),
        ("int16", n(3), [18048, 2317, 23204]),
        ("int32", n(3), [1182829493, 151880524, 1520735868]),
        ("uint32", n(3), [2365658986, 303761048, 3041471737]),
        ("int64", n(3), [5080213989483021976, 6531510822521726595, 2683122678001263560]),
        ("uint64", n(3), [10160427978662282904, 13063021645730866819, 5366245355481424840]),
    ],
)
def test_random_numbers_are_those_of_libstdcxx(type: str, seed: Any, expected: list[Any]) -> None:
    (found,) = run("random_uniform", [seed, np.zeros(3, type)])
    if type == "float32":
        np.testing.assert_allclose(found, expected, 1e-6)
    else:
        assert found.tolist() == expected


def test_resize_by_an_input_ignores_attributes_of_other_lengths() -> None:
    x = (ROWS + 0.5).reshape(1, 1, 3, 3)
    how = {"nearest_mode": "floor", "coordinate_transformation_mode": "half_pixel"}
    columns, rows = [0, 0, 0, 0, 1, 1, 1, 2], [0, 0, 1, 1, 2]
    (found,) = run("resize", [x, i(1, 1, 5, 8)], sizes=[1], scales=[1.0], **how)
    assert np.array_equal(found, x[:, :, rows][..., columns])


@pytest.mark.parametrize(("mode", "expected"), [(2, [1, 3, 5, 3]), (1, [0, 1, 3, 5])])
def test_automatic_padding_of_a_range_of_lengths(mode: int, expected: list[int]) -> None:
    program = wb.Program()
    shape = Shape.dynamic(DType.FLOAT, [1, 1, Dim(2, 6)])
    x = program.main.add_parameter("x", shape)
    w = program.main.add_literal(np.ones((1, 1, 2), np.float32))
    program.main.add("convolution", x, w, padding=[0], stride=[1], dilation=[1], padding_mode=mode)
    line = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    assert wb.compile(program, "ref").run({"x": line})[0].ravel().tolist() == expected


WEIGHTS = f(
    0.4691, 0.3185, -0.2227, 0.4423, -0.0609, -0.2803, 0.1744, 0.3146, 0.4049, -0.3973, -0.0890, -0.1636
).reshape(1, 4, 3)  # fmt: skip
RECURRENT = f(
    -0.0456, 0.1061, 0.1574, -0.4928, -0.4300, -0.1909, -0.0225, -0.2668,
    0.1840, -0.4453, -0.4896, 0.1302, -0.0929, 0.3545, -0.4981, 0.0616,
).reshape(1, 4, 4)  # fmt: skip
BIAS = f(-0.4938, 0.4355, -0.3186, 0.2094, 0.1037, -0.1071, 0.4504, -0.3990).reshape(1, 8)
HIDDEN = f(
    0.37780784, 0.61055139, 0.55168478, -0.5888475, -0.37144644, 0.31708236, 0.13104209, -0.18736027,
    0.03445704, 0.19167931, -0.3946827, -0.30889652, -0.22276389, 0.44193283, -0.16477929, -0.11893477,
).reshape(2, 1, 2, 4)  # fmt: skip


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_sequences_of_several_lengths(target: str) -> None:
    sequence = np.zeros((2, 2, 3), np.float32)
    sequence[0, 0, :2] = 1
    program = wb.Program()
    main = program.main
    given = [sequence, WEIGHTS, RECURRENT, BIAS, i(2, 1), np.zeros((1, 2, 4), np.float32)]
    hidden = main.add("rnn", *[main.add_literal(x) for x in given], hidden_size=4, actv_func=[])
    main.add_return(hidden, main.add("rnn_last_hs_output", hidden))
    every, last = wb.compile(program, target).run({}).outputs
    expected = HIDDEN.copy()
    expected[1, 0, 1] = 0
    np.testing.assert_allclose(every, expected, rtol=1e-5, atol=1e-6)
    ends = np.stack([HIDDEN[1, 0, 0], HIDDEN[0, 0, 1]])
    np.testing.assert_allclose(last[0], ends, rtol=1e-5, atol=1e-6)


def test_directions_are_given_by_name() -> None:
    states = np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2)
    (forward,) = run("rnn_var_sl_last_output", [states, i(2, 3)], direction="forward")
    (reverse,) = run("rnn_var_sl_last_output", [states, i(2, 3)], direction="reverse")
    assert forward.tolist() == [[[4, 5], [10, 11]]]
    assert reverse.tolist() == [[[0, 1], [2, 3]]]
    with pytest.raises(wb.WorkbenchError, match="direction='up'; expected one of forward"):
        run("rnn_var_sl_last_output", [states, i(2, 3)], direction="up")
