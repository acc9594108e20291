"""Generators of sequences and of values that may be missing."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.onnx.against_onnxruntime.control import graph, node, value
from tests.onnx.against_onnxruntime.pick import Example, Pick, covers

MADE = "SequenceConstruct"


def arrays(pick: Pick, low: int = 1) -> list[Any]:
    """Arrays of one type and rank, each with lengths of its own; ours are of one rank."""
    rank = pick.integer(0, 3)
    type = pick.one_of(["float", "int64", "double", "int32", "bool"])
    return [
        pick.array(type, pick.lens(rank, rank, empty=False)) for _ in range(pick.integer(low, 3))
    ]


def sequence(count: int) -> Any:
    """The node that makes a sequence of so many inputs."""
    return node(MADE, " ".join(f"x{i}" for i in range(count)), "s")


@covers("SequenceConstruct")
def construct(pick: Pick) -> Example:
    return Example(arrays(pick))


@covers("SequenceEmpty")
def empty(pick: Pick) -> Example:
    """An empty sequence with something put into it: nothing else tells of its type."""
    return Example([], pick.some(dtype=TensorProto.FLOAT))


@covers("SequenceInsert")
def insert(pick: Pick) -> Example:
    found = arrays(pick, 2)
    count = len(found) - 1
    names = ["s", f"x{count}"]
    if pick.flag():
        found.append(np.array(pick.integer(-count, count)))
        names.append(f"x{count + 1}")
    return Example(found, before=[sequence(count)], names=names)


@covers("SequenceErase")
def erase(pick: Pick) -> Example:
    found = arrays(pick, 2)
    names = ["s"]
    count = len(found)
    if pick.flag():
        found.append(np.array(pick.integer(-count, count - 1)))
        names.append(f"x{count}")
    return Example(found, before=[sequence(count)], names=names)


@covers("SequenceAt")
def at(pick: Pick) -> Example:
    found = arrays(pick)
    count = len(found)
    place = np.array(pick.integer(-count, count - 1))
    fixed = (count,) if pick.flag() else ()
    return Example([*found, place], before=[sequence(count)], names=["s", f"x{count}"], fixed=fixed)


@covers("SequenceLength")
def length(pick: Pick) -> Example:
    found = arrays(pick)
    return Example(found, before=[sequence(len(found))], names=["s"])


@covers("SplitToSequence")
def split_to_sequence(pick: Pick) -> Example:
    lens = list(pick.lens(1, 3, empty=False))
    axis = pick.axis(len(lens))
    type = pick.type("T", ["float", "int32", "int64", "double"])
    kind = pick.integer(0, 2)
    if kind == 0:
        attributes = {"axis": axis} | pick.some(keepdims=pick.integer(0, 1))
        return Example([pick.array(type, lens)], attributes)
    if kind == 1:
        sizes = np.array(pick.integer(1, lens[axis]))
    else:
        sizes = np.array([pick.integer(1, 2) for _ in range(pick.integer(1, 3))])
        lens[axis] = int(sizes.sum())
    return Example([pick.array(type, lens), sizes], {"axis": axis}, fixed=(1,))


@covers("ConcatFromSequence")
def concat_from_sequence(pick: Pick) -> Example:
    type, lens = pick.one_of(["float", "int64"]), list(pick.lens(1, 3, empty=False))
    new = pick.flag()
    axis = pick.integer(-len(lens) - new, len(lens) - 1 + new)
    found: list[Any] = []
    for _ in range(pick.integer(1, 3)):
        own = list(lens)
        if not new:
            own[axis] = pick.integer(1, 3)
        found.append(pick.array(type, own))
    attributes = {"axis": axis, "new_axis": int(new)}
    return Example(found, attributes, before=[sequence(len(found))], names=["s"])


@covers("SequenceMap")
def sequence_map(pick: Pick) -> Example:
    lens = [pick.lens(1, 1, empty=False) for _ in range(pick.integer(1, 3))]
    body = graph("body", [node("Mul", "a k", "b")], [value("a"), value("k")], [value("b")])
    found = [pick.array("float", n) for n in lens] + [pick.scalar("float")]
    count = len(lens)
    return Example(found, {"body": body}, before=[sequence(count)], names=["s", f"x{count}"])


@covers("Optional")
def optional(pick: Pick) -> Example:
    """A value that is there; a missing one cannot be handed out."""
    return Example([pick.array(pick.one_of(["float", "int64"]), pick.lens(empty=False))])


@covers("OptionalHasElement")
def has_element(pick: Pick) -> Example:
    type = pick.one_of(["float", "int64"])
    code = helper.np_dtype_to_tensor_dtype(pick.array(type, ()).dtype)
    x = pick.array(type, pick.lens(empty=False))
    if pick.opset >= 18 and pick.flag():
        return Example([x])
    if pick.flag():
        return Example([x], before=[node("Optional", "x0", "o")], names=["o"])
    kind = helper.make_tensor_type_proto(code, None)
    return Example([], before=[node("Optional", "", "o", type=kind)], names=["o"])


@covers("OptionalGetElement")
def get_element(pick: Pick) -> Example:
    x = pick.array(pick.one_of(["float", "int64"]), pick.lens(empty=False))
    if pick.opset >= 18 and pick.flag():
        return Example([x])
    return Example([x], before=[node("Optional", "x0", "o")], names=["o"])


@covers("TfIdfVectorizer")
def tf_idf(pick: Pick) -> Example:
    """Counts of numbers and of pairs, skips included."""
    pool, count = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], 7
    attributes: dict[str, Any] = {
        "mode": pick.one_of(["TF", "IDF", "TFIDF"]), "pool_int64s": pool, "ngram_counts": [0, 4],
        "min_gram_length": pick.integer(1, 2), "max_gram_length": 2,
        "max_skip_count": pick.integer(0, 5), "ngram_indexes": pick.order(count),
    }  # fmt: skip
    attributes |= pick.some(weights=[pick.number(0.5, 2) for _ in range(count)])
    lens = (pick.integer(2, 9),) if pick.flag() else (pick.integer(1, 3), pick.integer(2, 9))
    return Example([pick.array(pick.one_of(["int32", "int64"]), lens, 2, 9)], attributes)
