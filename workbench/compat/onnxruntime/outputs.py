"""Saving of a session's compiled program as a model, with tensors beside it where options say so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from workbench.compat.onnxruntime.errors import Fail, InvalidArgument, fail, raised_as
from workbench.compiler.builds.build import Build
from workbench.compiler.onnx.write import to_onnx

_FILE = "session.optimized_model_external_initializers_file_name"
_LEAST = "session.optimized_model_external_initializers_min_size_in_bytes"
_DEFAULT_LEAST = 1024


def save(build: Build, path: Path, entries: Mapping[str, str]) -> None:
    """Write a build's program as ONNX.

    Args:
        build: The build.
        path: The file; a file of the same name is replaced.
        entries: The session's entries: the name of a file for tensors, and the least bytes of such a tensor.

    Raises:
        Fail: The program has an operation without a meaning in ONNX.
        InvalidArgument: An entry is no number, or names a file of another folder.
    """
    with raised_as(Fail, "Unable to serialize model: "):
        model = to_onnx(build.program)
    beside = entries.get(_FILE)
    if beside is None:
        onnx.save_model(model, path)
        return
    least = entries.get(_LEAST, str(_DEFAULT_LEAST))
    if not least.isdigit() or Path(beside).name != beside:
        fail(
            InvalidArgument,
            f"{_LEAST}={least!r}, {_FILE}={beside!r}: expected a number, and a file's name",
        )
    (path.parent / beside).unlink(missing_ok=True)  # the library would append to it
    onnx.save_model(
        model, path, save_as_external_data=True, location=beside, size_threshold=int(least)
    )
