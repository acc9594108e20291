"""Files that are damaged or made to harm: refused, quickly, with the reason and the place."""

import copy
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.mxr.examples import EXAMPLES, branches
from workbench.compiler.errors import ModelError
from workbench.compiler.files import mxr

Change = Callable[[dict[str, Any]], Any]


def nodes(value: dict[str, Any], module: str = "main") -> list[dict[str, Any]]:
    return value["modules"][module]["nodes"]


def deep_shape(value: dict[str, Any]) -> None:
    shape = nodes(value)[0]["shape"]
    for _ in range(30):
        shape = {**shape, "type": "tuple_type", "sub_shapes": [shape]}
    nodes(value)[0]["shape"] = shape


def symbolic(value: dict[str, Any], sym: Any) -> None:
    shape = nodes(value)[1]["shape"]
    shape |= {"lens": [], "strides": []}
    shape["dynamic_dimensions"] = [{"range": None, "optimals": [], "sym": sym}]


CHANGES: dict[str, tuple[Change, str]] = {
    "no version": (lambda v: v.pop("version"), "'version' is missing"),
    "old version": (lambda v: v.update(version=7), "version 7; this workbench reads version 8"),
    "new version": (lambda v: v.update(version=9), "version 9"),
    "bool version": (lambda v: v.update(version=True), "expected an integer"),
    "no modules": (lambda v: v.update(modules=[]), "no module 'main'"),
    "no main": (lambda v: v["modules"].pop("main"), "no module 'main'"),
    "contexts": (lambda v: v.update(contexts=[None]), "0 targets with 1 contexts"),
    "target": (lambda v: v.update(targets=["ref"], contexts=[None]), "targets: expected an object"),
    "nodes": (lambda v: v["modules"]["main"].update(nodes=3), "nodes: expected a list"),
    "node": (lambda v: nodes(v).insert(0, 3), "node 0: node: expected an object"),
    "no output": (lambda v: nodes(v)[0].pop("output"), r"node 0 \(@param\): node: 'output'"),
    "same output": (lambda v: nodes(v)[1].update(output=nodes(v)[0]["output"]), "occurs twice"),
    "operation": (lambda v: nodes(v)[2].update(name="iff"), r"node 2 \(iff\): unknown operation"),
    "kernel": (lambda v: nodes(v)[2].update(name="gpu::code_object"), "kernel of one device"),
    "attribute": (lambda v: nodes(v)[3].update(operator={"size": 1}), "no attribute 'size'"),
    "attribute type": (lambda v: nodes(v)[3].update(operator={"index": "0"}), "index: expected"),
    "huge attribute": (lambda v: nodes(v)[3].update(operator={"index": 1 << 70}), "64 bits"),
    "index": (lambda v: nodes(v)[3].update(operator={"index": 9}), "get_tuple_elem"),
    "input": (lambda v: nodes(v)[2].update(inputs=["x9"]), "input 'x9' is not computed"),
    "later input": (lambda v: nodes(v)[2].update(inputs=["@3"]), "input '@3' is not computed"),
    "input type": (lambda v: nodes(v)[2].update(inputs=[3]), "inputs: expected a text"),
    "no module": (lambda v: nodes(v)[2].update(module_inputs=["else", "x"]), "module 'x' is not"),
    "main calls main": (
        lambda v: nodes(v)[2].update(module_inputs=["main", "else"]),
        "call each other in a cycle",
    ),
    "cycle": (
        lambda v: nodes(v, "then").append(nodes(v)[2] | {"output": "c"}),
        "call each other in a cycle",
    ),
    "shape": (lambda v: nodes(v)[3]["shape"].update(lens=[3, 2]), "the operation gives"),
    "parameter": (lambda v: nodes(v)[0].update(operator={}), "'parameter' is missing"),
    "same parameter": (
        lambda v: nodes(v)[1].update(operator=nodes(v)[0]["operator"]),
        "has a parameter",
    ),
    "no literal": (lambda v: nodes(v, "then")[0].pop("literal"), "'literal' is missing"),
    "short literal": (
        lambda v: nodes(v, "then")[0]["literal"].update(data=b"123"),
        "module 'then', node 0.*3 bytes of data; expected 24",
    ),
    "symbols": (lambda v: nodes(v)[2].update(debug_symbols=[1]), "debug_symbols: expected"),
    "empty symbol": (lambda v: nodes(v)[2].update(debug_symbols=[""]), "debug symbol ''"),
    "normalized": (lambda v: nodes(v)[2].update(normalized=3), "normalized"),
    "deep shape": (deep_shape, "node .*tuple"),
    "symbol": (lambda v: symbolic(v, {"type": "sym", "name": "a b"}), "symbol 'a b'"),
    "expression": (lambda v: symbolic(v, {"type": "pow"}), "type 'pow'"),
    "division": (
        lambda v: symbolic(
            v,
            {
                "type": "fdiv",
                "num": {"type": "int", "value": 1},
                "den": {"type": "int", "value": 0},
            },
        ),
        "node 1",
    ),
    "exponent": (
        lambda v: symbolic(
            v,
            {
                "type": "mul",
                "coeff": 1,
                "factors": [{"expr": {"type": "sym", "name": "n"}, "exp": 1 << 40}],
            },
        ),
        "exponent",
    ),
    "extra": (lambda v: v.update(workbench=[1]), "workbench: expected an object"),
    "bypass": (lambda v: v.update(workbench={"bypass": ["x"]}), "bypass: module 'x'"),
    "order": (lambda v: v.update(workbench={"order": ["main", "x"]}), "all modules, each once"),
    "type": (lambda v: nodes(v)[3]["shape"].update(type="0loat"), "unknown element type '0loat'"),
    "sources": (
        lambda v: v.update(workbench={"modules": {"main": {"sources": [[]]}}}),
        "1 entries for 5 nodes",
    ),
    "parameters": (
        lambda v: v.update(workbench={"modules": {"main": {"parameters": ["x"]}}}),
        "order of parameters",
    ),
    "source node": (lambda v: v.update(workbench={"source_nodes": [{"name": 1}]}), "source_nodes"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_wrong_part_is_refused_with_its_place(case):
    change, says = CHANGES[case]
    value = copy.deepcopy(_plain(mxr.to_value(branches())))
    change(value)
    with pytest.raises(ModelError, match=says):
        mxr.from_value(value)
    for form, write in (
        ("msgpack", mxr.write_msgpack),
        ("json", lambda v: mxr.write_json(v).encode()),
    ):
        if case == "huge attribute" and form == "msgpack":
            continue
        with pytest.raises(ModelError, match=says):
            mxr.load_buffer(write(value), form)


def _plain(value: Any) -> Any:
    """The value with bytes that can be copied."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return bytes(value) if isinstance(value, memoryview) else value


def test_a_wrong_file_says_which(tmp_path):
    path = tmp_path / "model.mxr"
    path.write_bytes(mxr.save_buffer(branches())[:-40])
    with pytest.raises(ModelError, match=r"model\.mxr: byte \d+: .*truncated"):
        mxr.load(path)
    path.write_text("PK")
    with pytest.raises(ModelError, match=r"model\.mxr"):
        mxr.load(path)


def test_lengths_of_a_file_take_no_memory():
    value = _plain(mxr.to_value(branches()))
    literal = nodes(value, "then")[0]["literal"]
    literal["shape"]["lens"] = [1 << 40, 1 << 20]
    packed = mxr.write_msgpack(value)
    tracemalloc.start()
    started = time.perf_counter()
    for hostile in (packed, b"\xdd\x7f\xff\xff\xff" * 1000, b"\x92\x90" * 90):
        with pytest.raises(ModelError):
            mxr.load_buffer(hostile)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert time.perf_counter() - started < 5


PACKED = {make.__name__: mxr.save_buffer(make()) for make in EXAMPLES}


@settings(max_examples=300)
@given(st.sampled_from(sorted(PACKED)), st.data())
def test_any_changed_byte_gives_a_program_or_a_reason(name, data):
    packed = bytearray(PACKED[name])
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    reason = "it is a program"
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        try:
            mxr.load_buffer(bytes(packed))
        except ModelError as error:
            reason = str(error)
    assert len(reason) > 10


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data):
    for form in ("msgpack", "json"):
        with pytest.raises(ModelError):
            mxr.load_buffer(data, form)
