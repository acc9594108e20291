"""onnxruntime's exceptions: the same names, numbers and beginnings of texts, then our reason."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from workbench.compiler.errors import WorkbenchError


class StatusError(WorkbenchError):
    """A status of onnxruntime, raised: ``[ONNXRuntimeError] : <number> : <name> : <reason>``."""

    code = 0
    label = ""


def _status(name: str, code: int, label: str, meaning: str) -> type[StatusError]:
    return type(
        name,
        (StatusError,),
        {"code": code, "label": label, "__doc__": meaning, "__module__": __name__},
    )


Fail = _status("Fail", 1, "FAIL", "A failure without a type of its own.")
InvalidArgument = _status(
    "InvalidArgument", 2, "INVALID_ARGUMENT", "An input, a name or a model that does not fit."
)
NoSuchFile = _status("NoSuchFile", 3, "NO_SUCHFILE", "A file that does not exist.")
NoModel = _status("NoModel", 4, "NO_MODEL", "A session without a model.")
EngineError = _status("EngineError", 5, "ENGINE_ERROR", "A failure of the engine.")
RuntimeException = _status("RuntimeException", 6, "RUNTIME_EXCEPTION", "A failure during a run.")
InvalidProtobuf = _status(
    "InvalidProtobuf", 7, "INVALID_PROTOBUF", "A file that is not a protobuf."
)
ModelLoaded = _status("ModelLoaded", 8, "MODEL_LOADED", "A model that is loaded already.")
NotImplemented = _status(
    "NotImplemented", 9, "NOT_IMPLEMENTED", "A feature of a model that is not supported."
)
InvalidGraph = _status("InvalidGraph", 10, "INVALID_GRAPH", "A graph that breaks ONNX's rules.")
EPFail = _status("EPFail", 11, "EP_FAIL", "A failure of a device.")
ModelLoadCanceled = _status(
    "ModelLoadCanceled", 12, "MODEL_LOAD_CANCELED", "A load that was cancelled."
)
ModelRequiresCompilation = _status(
    "ModelRequiresCompilation",
    13,
    "MODEL_REQUIRES_COMPILATION",
    "A model that has to be compiled first.",
)
NotFound = _status("NotFound", 14, "NOT_FOUND", "Something that was looked up and does not exist.")

STATUS = (
    Fail, InvalidArgument, NoSuchFile, NoModel, EngineError, RuntimeException, InvalidProtobuf, ModelLoaded,
    NotImplemented, InvalidGraph, EPFail, ModelLoadCanceled, ModelRequiresCompilation, NotFound,
)  # fmt: skip
"""All types, in the order of their numbers."""


def told(kind: type[StatusError], reason: str) -> StatusError:
    """An error with onnxruntime's beginning: its number and name."""
    return kind(f"[ONNXRuntimeError] : {kind.code} : {kind.label} : {reason}")


def fail(kind: type[StatusError], reason: str) -> NoReturn:
    """Raise an error with onnxruntime's beginning.

    Raises:
        StatusError: Always, of that kind.
    """
    raise told(kind, reason)


@contextmanager
def raised_as(kind: type[StatusError], before: str = "") -> Generator[None]:
    """Raise the workbench's errors as a kind of onnxruntime's, with the reason."""
    try:
        yield
    except StatusError:
        raise
    except WorkbenchError as error:
        raise told(kind, f"{before}{error}") from error
