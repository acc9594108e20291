"""Sequences and optionals."""

from __future__ import annotations

from workbench.compiler.ir.dtypes import DType
from workbench.compiler.onnx.write.call import Call
from workbench.compiler.onnx.write.protos import type_of
from workbench.compiler.onnx.write.registry import Named, writes

_PLAIN = {
    "sequence_construct": "SequenceConstruct", "sequence_length": "SequenceLength",
    "optional_has_element": "OptionalHasElement", "optional_get_element": "OptionalGetElement",
}  # fmt: skip
_PLACED = {
    "sequence_at": "SequenceAt", "sequence_erase": "SequenceErase",
    "sequence_insert": "SequenceInsert",
}  # fmt: skip


@writes(*_PLAIN)
def plain(call: Call) -> str:
    """One operator; a sequence of nothing has a type of its own."""
    if call.op.name == "sequence_construct" and not call.inputs:
        return call.add("SequenceEmpty")
    return call.add(_PLAIN[call.op.name], *call.inputs)


@writes(*_PLACED)
def placed(call: Call) -> str:
    """One operator, with the position as a scalar."""
    count = 2 if call.op.name == "sequence_insert" else 1
    given = list(call.inputs)
    if len(given) > count:
        given[count] = call.add("Reshape", call.indices(count), call.constant([]))
    return call.add(_PLACED[call.op.name], *given)


@writes("optional")
def optional(call: Call) -> Named:
    """Optional; an empty one names the type of its element."""
    if call.inputs:
        return call.add("Optional", *call.inputs)
    if not call.shape.subs:
        raise call.refuse("an empty optional of an unknown type")
    return call.add("Optional", type=type_of(call.shape.subs[0]))


@writes("split_to_sequence")
def split_to_sequence(call: Call) -> str:
    """SplitToSequence."""
    given = [call.cast(call.inputs[1], call.shapes[1].type, DType.INT64)] if call.inputs[1:] else []
    keep = int(call.op.keepdims)
    return call.add("SplitToSequence", call.inputs[0], *given, axis=call.op.axis, keepdims=keep)


@writes("concat_from_sequence")
def concat_from_sequence(call: Call) -> str:
    """ConcatFromSequence."""
    new = int(call.op.new_axis)
    return call.add("ConcatFromSequence", *call.inputs, axis=call.op.axis, new_axis=new)
