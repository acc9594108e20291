"""GraphDefs written by hand, without TensorFlow."""

from typing import Any

import numpy as np

from workbench.compiler.tf.reader import messages

CODES = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "int64": 9, "bool": 10,
    "uint16": 17, "float16": 19, "uint32": 22, "uint64": 23, "string": 7,
}  # fmt: skip
FIELDS = {"float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val"}


class Graph:
    """A graph on its way into a file."""

    def __init__(self) -> None:
        self.message = messages().GraphDef()

    def node(self, name: str, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; returns its name."""
        made = self.message.node.add(name=name, op=op)
        made.input.extend(inputs)
        for key, value in attributes.items():
            _set(made.attr[key], value)
        return name

    def given(self, name: str, *lens: int, type: str = "float32") -> str:
        """Add a placeholder; −1 is a length that is left open."""
        self.node(name, "Placeholder", dtype=Type(type))
        shape = self.message.node[-1].attr["shape"].shape
        shape.SetInParent()
        for n in lens:
            shape.dim.add(size=n)
        return name

    def const(self, name: str, value: Any, type: str = "int32") -> str:
        """Add a constant, written as TensorFlow does: many elements as bytes, one as a value."""
        return self.node(name, "Const", dtype=Type(type), value=np.asarray(value, type))

    def filled(self, name: str, value: float, *lens: int) -> str:
        """Add a constant of one value."""
        self.const(name, value, "float32")
        shape = self.message.node[-1].attr["value"].tensor.tensor_shape
        for n in lens:
            shape.dim.add(size=n)
        return name

    def bytes(self) -> bytes:
        """The file."""
        return self.message.SerializeToString()


class Type(str):
    """An element type as an attribute."""

    __slots__ = ()


def _set(attribute: Any, value: Any) -> None:
    if isinstance(value, Type):
        attribute.type = CODES[value]
    elif isinstance(value, np.ndarray):
        _set_tensor(attribute.tensor, value)
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.i = value
    elif isinstance(value, float):
        attribute.f = value
    elif isinstance(value, str):
        attribute.s = value.encode()
    else:
        attribute.list.i.extend(value)


def _set_tensor(tensor: Any, value: np.ndarray) -> None:
    type = value.dtype.name
    tensor.dtype = CODES[type]
    tensor.tensor_shape.SetInParent()
    for n in value.shape:
        tensor.tensor_shape.dim.add(size=n)
    if value.size > 1:
        tensor.tensor_content = value.tobytes()
    elif type == "float16":
        tensor.half_val.extend(value.reshape(-1).view(np.uint16).tolist())
    else:
        getattr(tensor, FIELDS.get(type, "int_val")).extend(value.reshape(-1).tolist())
