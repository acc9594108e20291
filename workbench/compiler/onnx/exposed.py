"""Models whose inner tensors become outputs, so that another runtime returns them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import onnx

from workbench.compiler.errors import ModelError
from workbench.compiler.onnx.reader import existing


@dataclass(frozen=True)
class Exposed:
    """A model of which any tensors can be outputs."""

    model: onnx.ModelProto
    folder: Path | None
    """The folder of tensors stored outside of the model file."""

    @property
    def tensors(self) -> list[str]:
        """The names of the tensors that nodes of the main graph compute, in the order of the nodes."""
        return [name for node in self.model.graph.node for name in node.output if name]

    def with_outputs(self, names: Iterable[str]) -> bytes:
        """The model as a file with these tensors as its outputs.

        Raises:
            ModelError: The model exceeds 2 GB, the limit of protocol buffers.
        """
        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        del made.graph.output[:]
        made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        try:
            return made.SerializeToString()
        except Exception as error:  # protobuf's errors have no public class here
            raise ModelError(
                f"{made.graph.name}: the model cannot be written: {error}; store its tensors in a "
                "file beside it, with onnx.save(…, save_as_external_data=True)"
            ) from error


def exposed(model: str | Path | bytes | onnx.ModelProto) -> Exposed:
    """Read a model, but not the tensors that are stored outside of its file.

    Args:
        model: A path, the bytes of a model, or a ModelProto.

    Raises:
        ModelError: The file is missing, or is not an ONNX model.
    """
    if isinstance(model, onnx.ModelProto):
        return Exposed(model, None)
    path = None if isinstance(model, bytes) else existing(model)
    try:
        data = model if isinstance(model, bytes) else existing(model).read_bytes()
        read = onnx.ModelProto.FromString(data)
    except Exception as error:  # protobuf's errors have no public class here
        raise ModelError(f"{path or 'the model'}: not an ONNX model: {error}") from error
    return Exposed(read, None if path is None else path.parent)
