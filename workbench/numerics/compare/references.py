"""Values that something else computed, by the model's names: arrays, an .npz file, or onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from workbench.compiler.builds.build import VALUE_BYTES
from workbench.compiler.builds.inputs import completed_inputs
from workbench.compiler.errors import EvaluationError, InputError, OperationError, WorkbenchError
from workbench.compiler.files.npz import arrays_of, names_in
from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.capture.store import ValueStore
from workbench.numerics.capture.tensor_names import named_instructions, similar, tensors

if TYPE_CHECKING:
    from workbench.compiler.onnx.exposed import Exposed

Reference: TypeAlias = Mapping[str, Any] | str | Path
ONNXRUNTIME = "onnxruntime"
_NUMBERS = "biufV"
"""The kinds of NumPy types that hold real numbers; V has the types of ml_dtypes."""


def named_values(
    reference: Reference,
    source: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    model: Any = None,
    skip_unknown: bool = False,
    budget: int = VALUE_BYTES,
    seed: int = 0,
) -> Mapping[str, Array]:
    """Reference values of tensors of the model, each checked against the program's shape.

    Args:
        reference: Arrays by name; the path of an ``.npz`` file of arrays; or ``"onnxruntime"``, which
            computes every tensor of the model's main graph with its graph optimisations off.
        source: The program that was imported from the model.
        inputs: For onnxruntime, an array for each parameter; missing ones are generated from ``seed``.
        model: For onnxruntime, the model: a path, its bytes or a ModelProto.
        skip_unknown: Leave out arrays whose names the model does not have, instead of refusing them.
        budget: Bytes of values to keep in memory; onnxruntime also runs once for about each such number
            of bytes.
        seed: Seed of the generated inputs.

    Returns:
        The values by the given names: of tensors, of nodes, or of modules as PyTorch names them;
        ``tensor_names.tensor`` has the instruction of each. Values from a file or from onnxruntime are
        read-only, and beyond the budget they lie in a temporary folder.

    Raises:
        InputError: An array has an unknown name, the wrong lens or no numbers; a file is missing or damaged.
        OperationError: There is no such reference, or onnxruntime is not installed.
        ModelError: The model is missing, or is not an ONNX model.
        EvaluationError: onnxruntime cannot run the model.
    """
    places = named_instructions(source)
    if isinstance(reference, Mapping):
        names = _known(list(reference), places, skip_unknown, "the reference")
        return {name: _fitting(name, reference[name], places[name].shape) for name in names}
    if reference == ONNXRUNTIME:
        return _computed(source, completed_inputs(source, inputs, seed), model, budget)
    return _read(_path(reference), places, skip_unknown, budget)


def _known(
    names: list[str], places: Mapping[str, Instruction], skip_unknown: bool, where: str
) -> list[str]:
    """The names that the model has.

    Raises:
        InputError: It lacks some, and they are not to be skipped, or it has none of them.
    """
    if not names:
        raise InputError(f"{where} has no arrays; expected some, named after tensors of the model")
    unknown = [name for name in names if name not in places]
    if unknown and (not skip_unknown or len(unknown) == len(names)):
        more = f" (and {len(unknown) - 1} more such)" if len(unknown) > 1 else ""
        hint = "" if len(unknown) == len(names) else "; skip_unknown=True leaves them out"
        raise InputError(
            f"{where}: the model has no tensor, node or module {unknown[0]!r}{more}"
            f"{similar(str(unknown[0]), places)}{hint}"
        )
    return [name for name in names if name in places]


def as_numbers(name: str, value: Any, shape: Shape) -> Array:
    """A named value as an array, with a type that NumPy's files lose restored.

    Args:
        name: Its name, for messages.
        value: An array, or anything that NumPy makes one of.
        shape: The shape of the tensor; only its type is used.

    Raises:
        InputError: It does not hold real numbers.
    """
    try:
        value = np.asarray(value)
    except Exception as error:  # another library's tensor may raise anything
        raise InputError(
            f"value {name!r} is a {type(value).__name__}; expected an array: {error}"
        ) from error
    wanted = shape.type.numpy
    if value.dtype.kind == "V" and value.dtype.isbuiltin == 0 and not value.dtype.names:
        value = value.view(wanted) if value.dtype.itemsize == wanted.itemsize else value
    if value.dtype.kind not in _NUMBERS or value.dtype.isbuiltin == 0:
        raise InputError(f"value {name!r} is an array of {value.dtype}; expected real numbers")
    return value


def _fitting(name: str, value: Any, shape: Shape) -> Array:
    """The value as an array, if it can be that of a tensor of this shape.

    Raises:
        InputError: Its lens differ, or it does not hold numbers.
    """
    value = as_numbers(name, value, shape)
    if shape.is_tensor and not _fits(value, shape):
        raise InputError(
            f"value {name!r} has the lens {list(value.shape)}; the program computes {shape}"
        )
    return value


def _fits(value: Array, shape: Shape) -> bool:
    if shape.dims is None:
        return value.shape in (shape.lens, shape.array_lens)
    pairs = zip(shape.dims, value.shape, strict=False)
    return len(shape.dims) == value.ndim and all(d.min <= n <= d.max for d, n in pairs)


# Files


def _path(reference: object) -> Path:
    if not isinstance(reference, str | Path):
        raise OperationError(
            f"a reference is a {type(reference).__name__}; expected arrays by name, the path of an .npz "
            f"file, or {ONNXRUNTIME!r}"
        )
    path = Path(reference)
    if path.suffix == ".onnx":
        raise OperationError(
            f"{path} is a model; to compute its values, give reference={ONNXRUNTIME!r} and "
            f"model={str(path)!r}"
        )
    if not path.exists():
        raise InputError(
            f"there is no file {path}; expected an .npz file of arrays, or {ONNXRUNTIME!r}"
        )
    return path


def _read(
    path: Path, places: Mapping[str, Instruction], skip_unknown: bool, budget: int
) -> ValueStore:
    names = names_in(path)
    known = set(_known(names, places, skip_unknown, str(path)))
    shapes = {name: places[name].shape for name in known}
    store = ValueStore(budget)
    for name, value in arrays_of(path, shapes, ("value", "tensor"), skip=set(names) - known):
        store[name] = _fitting(name, value, shapes[name])
    return store


# onnxruntime


def _computed(
    source: Program, inputs: Mapping[str, Any], model: Any, budget: int
) -> Mapping[str, Array]:
    """The tensors of the model, computed in groups that fit in the budget."""
    library = _library()
    if model is None:
        raise OperationError(
            f"reference={ONNXRUNTIME!r} runs the model itself; give it as model=: a path, bytes or a "
            "ModelProto"
        )
    from workbench.compiler.onnx.exposed import exposed  # noqa: PLC0415

    opened, places = exposed(model), tensors(source)
    shapes = {n: places[n].shape for n in opened.tensors if n in places}
    wanted = {name: shape for name, shape in shapes.items() if shape.is_tensor}
    if not wanted:
        raise InputError(
            f"the program and the model have no tensor in common; expected the model from which "
            f"{source.name or 'the program'} was imported"
        )
    store = ValueStore(budget)
    for names in _groups(wanted, inputs, budget):
        for name, value in _run(library, opened, names, inputs):
            store[name] = _fitting(name, value, wanted[name])
    return store


def _library() -> Any:
    try:
        return import_module(ONNXRUNTIME)
    except ImportError as error:
        raise OperationError(
            f"reference={ONNXRUNTIME!r} needs the package onnxruntime; install it with "
            f"`pip install graph-workbench[ort]` ({error})"
        ) from error


def _groups(
    shapes: Mapping[str, Shape], inputs: Mapping[str, Any], budget: int
) -> Iterator[list[str]]:
    """The names in groups whose values have about as many bytes as the budget, and at least one name."""
    group, size = list[str](), 0
    longest = max((n for x in inputs.values() for n in getattr(x, "shape", ())), default=1)
    for name, shape in shapes.items():
        bytes = _bytes(shape, longest)
        if group and size + bytes > budget:
            yield group
            group, size = [], 0
        group.append(name)
        size += bytes
    yield group


def _bytes(shape: Shape, longest: int) -> int:
    """The bytes of a value; a length that is a range counts as the longest length of an input."""
    if shape.dims is None:
        return shape.elements * shape.type.size
    return prod(min(max(longest, d.min), d.max) for d in shape.dims) * shape.type.size


def _run(
    library: Any, model: Exposed, names: Sequence[str], inputs: Mapping[str, Any]
) -> Iterator[tuple[str, Array]]:
    """The values of some tensors.

    Raises:
        InputError: The model has an input that was not given.
        EvaluationError: onnxruntime refuses the model or an input.
    """
    try:
        peer = _loaded(library, model, names)
        needed = [given.name for given in peer.get_inputs()]
        if missing := [name for name in needed if name not in inputs]:
            raise InputError(
                f"onnxruntime needs the model's input {missing[0]!r}, which is not one of "
                "the program's parameters; give it in inputs"
            )
        found: list[Any] = peer.run(list(names), {name: _fed(inputs[name]) for name in needed})
    except WorkbenchError:
        raise
    except Exception as error:  # its errors have no public base
        raise EvaluationError(f"onnxruntime cannot run the model: {error}") from error
    return ((n, v) for n, v in zip(names, found, strict=True) if not isinstance(v, list | None))


def _fed(value: Any) -> Any:
    """An input as onnxruntime takes it: an array, or a list of arrays for a sequence."""
    return (
        [_fed(v) for v in cast("list[Any]", value)]
        if isinstance(value, list)
        else np.asarray(value)
    )


def _loaded(library: Any, model: Exposed, names: Sequence[str]) -> Any:
    options = library.SessionOptions()
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    if model.folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(model.folder))
    data = model.with_outputs(names)
    return library.InferenceSession(data, options, providers=["CPUExecutionProvider"])
