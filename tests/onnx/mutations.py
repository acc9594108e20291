"""Models to be damaged, and ways to damage them: in their bytes, and in what the bytes mean."""

import struct
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from tests.models.small import SMALL
from tests.onnx.models import floats, model

LARGEST = 20_000
"""Bytes of the largest model that is damaged; what a small one does not show, a large one does not."""

NUMBERS = [0, 1, -1, 2, 3, 7, 8, 16, 64, 127, 128, 255, 1000, 65536, 1 << 20, 1 << 24, -2, -3, -100]
HUGE = [1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 33, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63)]
REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e38, -1e38, float("nan"), float("inf"), float("-inf")]
TEXTS = [
    "", " ", "\0", "\n", "a\tb", "x" * 3000, "ü😀", "\u202e\u0000", "\x7f\x1b[31m", "<script>", "@1",
    "main", "main:x", "%0", "/", "//", "../x", "a/../../b", "{2, 3}", "-> float_type", "#output_0",
    "@literal{1}", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "linear", "cubic", "nearest", "pool",
    "bilinear,bilinear->", "ij,jk->ik", "...ii->i", "i" * 60, "Tanh", "reverse", "bidirectional",
]  # fmt: skip
PLACES = [
    "w.bin", "../secret.bin", "link.bin", "/etc/passwd", "/dev/zero", "/proc/self/mem", "sub", "",
    ".", "..", "w.bin\0", "a/../w.bin", "none", "sub/../../secret.bin", "~", "file:///etc/passwd",
]  # fmt: skip

Mutation = Callable[[Random, onnx.ModelProto], None]


class Seed(NamedTuple):
    """A valid model to start from."""

    name: str
    data: bytes


@cache
def seeds() -> list[Seed]:
    """Node cases of onnx's own suite, with run-time and with constant inputs, and small networks."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    found = [Seed(name, make().SerializeToString()) for name, make in SMALL.items()]
    found += [Seed(m.graph.name, m.SerializeToString()) for m in (recursive(), stored_apart())] * 5
    for case in cases:
        found.append(Seed(case.name, case.model.SerializeToString()))
        fixed = with_constants(case.model, case.data_sets[0][0])
        if fixed is not None:
            found.append(Seed(f"{case.name}+", fixed.SerializeToString()))
    return [s for s in found if len(s.data) <= LARGEST or s.name in SMALL]


def with_constants(made: onnx.ModelProto, values: Sequence[Any]) -> onnx.ModelProto | None:
    """The model with all inputs but its first as initialisers."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(made)
    named = list(zip([i.name for i in made.graph.input], values, strict=False))[1:]
    kept = {n: v for n, v in named if isinstance(v, np.ndarray) and v.dtype != object}
    for name, value in kept.items():
        fixed.graph.initializer.append(numpy_helper.from_array(value, name))
    return fixed if kept else None


def recursive() -> onnx.ModelProto:
    """Functions that call each other."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    pairs = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "Relu")]
    made = []
    for name, inner in pairs:
        calls = [
            helper.make_node(inner, [v], [w], domain="" if inner == "Relu" else "f")
            for v, w in (("a", "b"), ("b", "c"))
        ]
        made.append(helper.make_function("f", name, ["a"], ["c"], calls, opset))
    call = helper.make_node("A", ["x"], ["y"], domain="f")
    return model([call], [floats("x", 2)], ["y"], functions=made, opset=17)


def stored_apart() -> onnx.ModelProto:
    """A model with a tensor in another file."""
    tensor = onnx.TensorProto(name="w", dims=[2], data_type=onnx.TensorProto.FLOAT)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "8")):
        tensor.external_data.add(key=key, value=value)
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [floats("x", 2)], ["y"])
    made.graph.initializer.append(tensor)
    return made


def data_folder(root: Path) -> Path:
    """A folder for data of models, and beside it what no model may read."""
    inside = root / "models"
    (inside / "sub").mkdir(parents=True)
    np.arange(6, dtype=np.float32).tofile(inside / "w.bin")
    np.arange(6, dtype=np.float32).tofile(root / "secret.bin")
    (inside / "link.bin").symlink_to(root / "secret.bin")
    return inside


# Bytes


def damaged(random: Random, data: bytes, other: bytes) -> bytes:
    """The bytes with a few flips, cuts, insertions, repetitions or parts of another model."""
    for _ in range(random.choice([1, 1, 2, 5])):
        a, b = sorted(random.randrange(len(data) + 1) for _ in range(2))
        match random.randrange(6):
            case 0:
                some = [random.randrange(256) for _ in range(random.randint(1, 3))]
                data = data[:a] + bytes(some) + data[a + len(some) :]
            case 1:
                data = data[:a]
            case 2:
                data = data[:a] + random.randbytes(random.randint(1, 12)) + data[a:]
            case 3:
                b = min(b, a + 40)
                data = data[:b] + data[a:b] * random.choice([1, 1, 200]) + data[b:]
            case 4:
                data = data[:a] + data[min(b, a + 30) :]
            case _:
                start = random.randrange(len(other) + 1)
                data = data[:a] + other[start : start + random.randint(1, 200)] + data[a:]
    return data


def noise(random: Random) -> bytes:
    """Random bytes: of any kind, or with the outline of a protobuf message."""
    length = random.choice([0, 1, 2, 10, 100, 3000])
    if random.random() < 0.4:
        return random.randbytes(length)
    parts = [b"\x08\x08"]
    for _ in range(random.randint(1, 8)):
        body = noise(random) if random.random() < 0.3 else random.randbytes(random.randint(0, 9))
        key = random.choice([1, 2, 5, 7, 8, 11, 14, 20, 25]) << 3 | random.choice(
            [0, 1, 2, 2, 2, 5]
        )
        parts.append(_varint(key) + _varint(len(body)) + body)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    low = [value >> shift & 127 | 128 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*low[:-1], low[-1] & 127])


# Structure


def messages(message: Any) -> list[Any]:
    """All messages inside of a message, itself first."""
    found, at = [message], 0
    while at < len(found):
        for field, value in found[at].ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                found += value if field.is_repeated else [value]
        at += 1
    return found


def any_field(random: Random, made: onnx.ModelProto) -> None:
    """Change a field of any message."""
    pool = messages(made)
    message = random.choice(pool)
    field = random.choice(message.DESCRIPTOR.fields)
    filled = [f for f, _ in message.ListFields()]
    if filled and random.random() < 0.8:
        field = random.choice(filled)
    if field.is_repeated:
        _change_list(random, message, field, pool)
    elif random.random() < 0.1:
        message.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        same = [m for m in pool if m.DESCRIPTOR is field.message_type]
        if same:
            getattr(message, field.name).CopyFrom(_copy(random.choice(same)))
    else:
        setattr(message, field.name, _scalar(random, field, pool))


def _change_list(random: Random, message: Any, field: Any, pool: list[Any]) -> None:
    values = getattr(message, field.name)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        new = [_copy(m) for m in pool if m.DESCRIPTOR is field.message_type]
    else:
        new = [_scalar(random, field, pool) for _ in range(3)]
    kept = list(values)
    place = random.randrange(len(kept) + 1)
    match random.randrange(6 if kept else 1):
        case 0:
            kept[place:place] = new[:1] if random.random() < 0.5 else new[-1:]
        case 1:
            del kept[place - 1]
        case 2:
            kept[place:place] = [_copy(random.choice(kept))] * random.choice([1, 2, 30])
        case 3:
            random.shuffle(kept)
        case 4:
            kept = kept[:place]
        case _:
            kept[place - 1 : place] = new[-1:]
    kept = [_copy(k) for k in kept]
    del values[:]
    values.extend(kept)


def _copy(value: Any) -> Any:
    if not hasattr(value, "CopyFrom"):
        return value
    made = type(value)()
    made.CopyFrom(value)
    return made


def _scalar(random: Random, field: Any, pool: list[Any]) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return random.choice(field.enum_type.values).number
    if kind in {FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE}:
        return random.choice(REALS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.choice([0, 1, 3, 4, 8, 16, 64, 5000]))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return _text(random, pool)
    bits = 32 if kind in {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32} else 64
    signed = kind in {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64}
    return _whole(random, bits, signed)


def _whole(random: Random, bits: int = 64, signed: bool = True) -> int:
    value = random.choice(NUMBERS if random.random() < 0.75 else HUGE)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def _text(random: Random, pool: list[Any]) -> str:
    names = [m.name for m in pool if isinstance(m, onnx.ValueInfoProto | onnx.TensorProto)]
    names += [n for m in pool if isinstance(m, onnx.NodeProto) for n in m.output]
    if random.random() < 0.4 and names:
        return random.choice(names)
    if random.random() < 0.3:
        return random.choice(seeds()).name.removeprefix("test_").split("_")[0].capitalize()
    return random.choice(TEXTS)


def _nodes(made: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [m for m in messages(made) if isinstance(m, onnx.NodeProto)]


def attribute(random: Random, made: onnx.ModelProto) -> None:
    """Give an attribute of a node another value, list or type."""
    node = random.choice(_nodes(made))
    name = random.choice(_attribute_names(node) or ["axis"])
    for index, old in enumerate(node.attribute):
        if old.name == name:
            del node.attribute[index]
            break
    count = random.choice([0, 1, 2, 2, 3, 4, 4, 8, 100])
    value = random.choice(
        [
            _whole(random),
            random.choice(NUMBERS),
            [_whole(random) for _ in range(count)],
            [random.choice(NUMBERS)] * count,
            random.choice(REALS),
            [random.choice(REALS)] * max(count, 1),
            random.choice(TEXTS),
            [random.choice(TEXTS)] * max(count, 1),
        ]
    )
    kind = onnx.AttributeProto.INTS if value == [] else None
    node.attribute.append(helper.make_attribute(name, value, attr_type=kind))


@cache
def _known_attributes(op_type: str, domain: str) -> list[str]:
    try:
        return sorted(onnx.defs.get_schema(op_type, domain=domain).attributes)
    except onnx.defs.SchemaError:
        return []


def _attribute_names(node: onnx.NodeProto) -> list[str]:
    known = _known_attributes(node.op_type, node.domain) if "\0" not in node.op_type else []
    return known + [a.name for a in node.attribute]


def weight(random: Random, made: onnx.ModelProto) -> None:
    """Put other values, dimensions or a length that does not fit into a tensor."""
    tensors = [m for m in messages(made) if isinstance(m, onnx.TensorProto)]
    if not tensors:
        return attribute(random, made)
    tensor = random.choice(tensors)
    match random.randrange(4):
        case 0 if tensor.data_type == onnx.TensorProto.INT64:
            count = random.choice([len(tensor.raw_data) // 8, 1, 2, 5])
            whole = [_whole(random) for _ in range(count)]
            tensor.raw_data = struct.pack(f"<{count}q", *whole)
        case 0 | 1:
            reals = random.choice([struct.pack("<f", r) for r in REALS])
            size = len(tensor.raw_data) or 4
            tensor.raw_data = (reals * size)[:size]
        case 2:
            lens = [_whole(random) for _ in range(random.choice([0, 1, 2, 3, 70]))]
            tensor.dims[:] = lens
        case _:
            size = random.choice([0, 1, len(tensor.raw_data) + 1, len(tensor.raw_data) * 2, 5000])
            tensor.raw_data = (tensor.raw_data * 2 or b"\0" * 5000)[:size]
    return None


def declaration(random: Random, made: onnx.ModelProto) -> None:
    """Declare an input with other dimensions or another type."""
    values = [m for m in messages(made) if isinstance(m, onnx.ValueInfoProto)]
    if not values:
        return
    tensor = random.choice(values).type.tensor_type
    if random.random() < 0.3:
        tensor.elem_type = random.randrange(30)
        return
    dims = tensor.shape.dim
    if not dims or random.random() < 0.2:
        del dims[random.randrange(len(dims) + 1) :]
        dims.add()
    dim = random.choice(dims)
    if random.random() < 0.3:
        dim.dim_param = random.choice(["", "n", "batch", *TEXTS])
    else:
        dim.dim_value = _whole(random)


def wiring(random: Random, made: onnx.ModelProto) -> None:
    """Rename, remove or repeat an input or output of a node: cycles, values made twice, too few."""
    nodes = _nodes(made)
    node = random.choice(nodes)
    names = [n for one in nodes for n in (*one.input, *one.output)] or ["x"]
    side = random.choice([node.input, node.output])
    match random.randrange(5):
        case 0 if side:
            side[random.randrange(len(side))] = random.choice(names)
        case 1 if side:
            del side[random.randrange(len(side))]
        case 2:
            side.append(random.choice(names))
        case 3 if side:
            side[random.randrange(len(side))] = ""
        case _:
            side.extend([random.choice(names)] * random.choice([1, 5, 40]))


def operator(random: Random, made: onnx.ModelProto) -> None:
    """Let a node be of another operator or operator set."""
    node = random.choice(_nodes(made))
    other = onnx.ModelProto.FromString(random.choice(seeds()).data)
    donor = random.choice(_nodes(other))
    node.op_type, node.domain = donor.op_type, donor.domain
    if random.random() < 0.5:
        del node.attribute[:]
        node.attribute.extend(donor.attribute)
    if random.random() < 0.3:
        made.opset_import.add(domain=donor.domain, version=random.randint(1, 28))
    elif random.random() < 0.3:
        made.opset_import[0].version = random.randint(1, 28)


def nesting(random: Random, made: onnx.ModelProto) -> None:
    """Wrap the graph into many Ifs, or let it repeat a node very often."""
    if random.random() < 0.5:
        node = random.choice(made.graph.node or [onnx.NodeProto(op_type="Relu")])
        for k in range(min(random.choice([10, 60]), 1 + 2 * LARGEST // node.ByteSize())):
            made.graph.node.add().CopyFrom(node)
            made.graph.node[-1].output[:] = [f"{o}_{k}" for o in node.output]
        return
    for k in range(random.choice([2, 10, 25]) if made.ByteSize() < LARGEST else 0):
        _wrap(made.graph, k)


def _wrap(graph: onnx.GraphProto, depth: int) -> None:
    """Put a graph into both branches of an If or, where that would get large, the body of a Loop."""
    inner = _copy(graph)
    del inner.input[:]
    names = [f"{o.name}_{depth}" for o in inner.output]
    condition = helper.make_tensor_value_info("c!", onnx.TensorProto.BOOL, [])
    if depth < 4:
        node = helper.make_node("If", ["c!"], names, then_branch=inner, else_branch=_copy(inner))
    else:
        step = helper.make_tensor_value_info(f"i!{depth}", onnx.TensorProto.INT64, [])
        again = helper.make_tensor_value_info(f"c!{depth}", onnx.TensorProto.BOOL, [])
        inner.input.extend([step, again])
        inner.output.insert(0, again)
        node = helper.make_node("Loop", ["", "c!"], names, body=inner)
    inputs = [condition, *[i for i in graph.input if i.name != "c!"]]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph.CopyFrom(helper.make_graph([node], "deep", inputs, outputs))


def call(random: Random, made: onnx.ModelProto) -> None:
    """Call a function of the model, perhaps from inside of itself, or define an operator by one."""
    nodes = _nodes(made)
    node = random.choice(nodes)
    if made.functions and random.random() < 0.6:
        function = random.choice(made.functions)
        node.op_type, node.domain = function.name, function.domain
        return
    opsets = [helper.make_opsetid(o.domain, o.version) for o in made.opset_import]
    inputs, outputs = list(dict.fromkeys(node.input)), list(dict.fromkeys(node.output))
    body = [_copy(n) for n in random.sample(nodes, min(3, len(nodes)))]
    made.functions.append(
        helper.make_function(node.domain, node.op_type, inputs, outputs, body, opsets)
    )


def apart(random: Random, made: onnx.ModelProto) -> None:
    """Say that a tensor lies in another file."""
    tensors = [m for m in messages(made) if isinstance(m, onnx.TensorProto)]
    tensor = (
        random.choice(tensors) if tensors else made.graph.initializer.add(name="w", data_type=1)
    )
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=random.choice(PLACES))
    for key in ("offset", "length", "basepath"):
        if random.random() < 0.4:
            tensor.external_data.add(key=key, value=str(random.choice([*NUMBERS, *HUGE, *TEXTS])))


MUTATIONS: dict[Mutation, int] = {
    any_field: 3, attribute: 5, weight: 4, declaration: 3, wiring: 1, operator: 2, nesting: 1, call: 1,
    apart: 1,
}  # fmt: skip
"""Ways to damage a model, and how often each is taken."""


def case(seed: int, number: int) -> tuple[str, bytes]:
    """The changes of a case, and its bytes; the same for one seed and number."""
    random = Random(f"{seed}/{number}")
    if random.random() < 0.06:
        return "noise", noise(random)
    start = random.choice(seeds())
    if random.random() < 0.15:
        return f"{start.name}: bytes", damaged(random, start.data, random.choice(seeds()).data)
    made = onnx.ModelProto.FromString(start.data)
    done: list[str] = []
    for mutation in random.choices(
        [*MUTATIONS], [*MUTATIONS.values()], k=random.choice([1, 1, 1, 2, 3])
    ):
        with suppress(DecodeError):  # deeper than protobuf nests messages
            if _nodes(made):
                mutation(random, made)
                done.append(mutation.__name__)
    return f"{start.name}: {', '.join(done)}", made.SerializeToString()
