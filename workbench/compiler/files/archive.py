"""Programs and recordings as files: a zip of one JSON document and the raw bytes of each literal.

Nothing in a file is executed or unpickled; every size is checked before memory is taken.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from functools import cache
from io import BytesIO
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from workbench.compiler.errors import ModelError, OperationError, WorkbenchError
from workbench.compiler.files import mxr
from workbench.compiler.files.mxr.files import SUFFIXES
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.facts import FACTS
from workbench.compiler.ir.module import SourceNode
from workbench.compiler.ir.operation import Operation, find
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.rows import ModuleRow, Row, Rows, build, rows_of
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.sym.values import from_value, to_value
from workbench.compiler.record.edits import Counts, Edit, NearMiss, Step
from workbench.compiler.record.lowered import Lowered, LoweredRow, PlaceRow
from workbench.compiler.record.recording import Recording

FORMAT = "graph-workbench"
VERSION = 1
_DOCUMENT = "document.json"

MAX_DOCUMENT_BYTES = 1 << 28
MAX_VALUES = 1 << 24
MAX_RATIO = 64
"""Bytes of JSON for each byte in the file; what the workbench writes has 5 to 30."""
_PLAIN_BYTES = 1 << 24
"""A document of this size may be smaller yet in the file."""

_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, ValueError, TypeError,
    AttributeError, ArithmeticError, NotImplementedError, MemoryError, RuntimeError,
)  # fmt: skip
"""Errors of a file that is damaged, or that something else has written."""

Json = Any


def save(what: Program | Recording, path: str | Path) -> None:
    """Write a program or a recording to a file; an existing file is replaced once the new one is complete.

    The file's suffix selects the form: a program can be MIGraphX's ``.mxr`` or ``.json``; any other suffix
    means the workbench's own form, which also keeps the ids of instructions.

    Raises:
        OperationError: ``what`` is something else, or a recording for one of MIGraphX's forms; for a build,
            save its ``recording`` or ``program``.
        OSError: The file cannot be written.
    """
    path = Path(path)
    if not isinstance(what, Program | Recording):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OperationError(
            f"a {type(what).__name__} cannot be saved; expected a program or a recording, such as "
            "build.program or build.recording"
        )
    if (form := SUFFIXES.get(path.suffix)) is not None:
        if isinstance(what, Recording):
            raise OperationError(
                f"{path}: MIGraphX's files hold no recordings; save it under a name without {path.suffix}"
            )
        mxr.save(what, path, form)
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}; create it first")
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            _write(what, file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def to_bytes(program: Program) -> bytes:
    """A program in the workbench's own form; ``from_bytes`` reads it, in another process too."""
    file = BytesIO()
    _write(program, file)
    return file.getvalue()


def from_bytes(data: bytes) -> Program:
    """The program that ``to_bytes`` wrote, with the same ids.

    Raises:
        ModelError: The bytes are damaged, or of another kind or version.
    """
    with _damage_told("bytes of a program"):
        found = _read(BytesIO(data))
    if not isinstance(found, Program):
        raise ModelError("bytes of a program: found a recording")
    return found


def _write(what: Program | Recording, to: IO[bytes]) -> None:
    pool = _Literals()
    kind = "program" if isinstance(what, Program) else "recording"
    body = _tables(rows_of(what), pool) if isinstance(what, Program) else _recording(what, pool)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "body": body,
        "literals": pool.shapes(),
    }
    with zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as file:
        file.writestr(_DOCUMENT, json.dumps(document), zipfile.ZIP_DEFLATED)
        for number, argument in enumerate(pool.arguments):
            file.writestr(_member(number), np.ascontiguousarray(argument.numpy()).tobytes())


def load(path: str | Path) -> Program | Recording:
    """Read a file written by ``save`` or by MIGraphX (``.mxr`` and ``.json``).

    Raises:
        ModelError: The file is missing, damaged, or of another kind or version.
    """
    if (form := SUFFIXES.get(Path(path).suffix)) is not None:
        return mxr.load(path, form)
    with _damage_told(path):
        _check_file(Path(path))
        return _read(path)


def _read(given: str | Path | IO[bytes]) -> Program | Recording:
    with zipfile.ZipFile(given) as file:
        document = _document(file)
        _check_header(document)
        literals = _read_literals(file, document["literals"])
    if document["kind"] == "program":
        return build(_rows(document["body"], literals))
    return _read_recording(document["body"], literals)


@contextmanager
def _damage_told(path: object) -> Generator[None]:
    """Raise the errors of a damaged file as a ModelError that names it."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise ModelError(f"{path}: damaged: its content is nested too deeply") from error
    except _DAMAGE as error:
        raise ModelError(
            f"{path}: not a file that the workbench wrote, or damaged: {error}"
        ) from error
    except WorkbenchError as error:
        raise ModelError(f"{path}: {error}") from error


def _check_file(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ModelError("this is a pipe or a device; expected a file that the workbench wrote")


def _document(file: zipfile.ZipFile) -> Json:
    """The JSON document, unless it is much larger than what is stored, or has very many values."""
    info = file.getinfo(_DOCUMENT)
    most = min(MAX_DOCUMENT_BYTES, max(_PLAIN_BYTES, MAX_RATIO * info.compress_size))
    if info.file_size > most:
        raise ModelError(
            f"{_DOCUMENT} has {info.file_size:,} bytes in {info.compress_size:,}; expected at most {most:,}"
        )
    text = file.read(info)
    if (count := sum(map(text.count, (b",", b"[", b"{")))) > MAX_VALUES:
        raise ModelError(f"{_DOCUMENT} has about {count:,} values; expected at most {MAX_VALUES:,}")
    return json.loads(text)


def _check_header(document: Mapping[str, Json]) -> None:
    if document.get("format") != FORMAT or document.get("kind") not in ("program", "recording"):
        raise ModelError("expected a program or recording of the workbench")
    if document.get("version") != VERSION:
        found = document.get("version")
        raise ModelError(f"file version {found!r}; this workbench reads version {VERSION}")


class _Literals:
    """Numbers the distinct literals that are being written."""

    def __init__(self) -> None:
        self.arguments: list[Argument] = []
        self._numbers: dict[int, int] = {}

    def number(self, literal: Argument | None) -> int | None:
        if literal is None:
            return None
        if id(literal) not in self._numbers:
            self._numbers[id(literal)] = len(self.arguments)
            self.arguments.append(literal)
        return self._numbers[id(literal)]

    def shapes(self) -> list[Json]:
        return [_shape(a.shape) for a in self.arguments]


def _member(number: int) -> str:
    return f"literals/{number}"


def _read_literals(file: zipfile.ZipFile, described: Json) -> list[Argument]:
    """The literals; parts of the file that overlap are not believed."""
    stored, size = sum(i.compress_size for i in file.infolist()), file.start_dir
    if stored > size:
        raise ModelError(f"its members take {stored:,} bytes; there are {size:,} before their list")
    return [_literal(file, n, s) for n, s in enumerate(described)]


def _literal(file: zipfile.ZipFile, number: int, described: Json) -> Argument:
    shape = _read_shape(described)
    info = file.getinfo(_member(number))
    expected = shape.elements * shape.type.size
    plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
    if info.file_size != expected or not plain:
        raise ModelError(
            f"literal {number}: expected {expected} stored bytes, found {info.file_size}"
        )
    array: Array = np.frombuffer(file.read(info), shape.type.numpy)
    return Argument(shape, array.reshape(shape.array_lens))


# Values


def _shape(shape: Shape) -> Json:
    return {
        "type": int(shape.type),
        "lens": shape.lens,
        "strides": shape.strides,
        "dims": None if shape.dims is None else [_dim(d) for d in shape.dims],
        "subs": None if shape.subs is None else [_shape(s) for s in shape.subs],
        "kind": shape.kind,
        **({"absent": True} if shape.is_absent else {}),
        **({"dyn_strides": [to_value(s) for s in shape.dyn_strides]} if shape.dyn_strides else {}),
    }


def _dim(dim: Dim) -> Json:
    if dim.sym is not None:
        return {"sym": to_value(dim.sym)}
    return [dim.min, dim.max, dim.optimals, dim.name]


def _read_dim(value: Json) -> Dim:
    if isinstance(value, Mapping):
        return Dim.of(from_value(cast("Mapping[str, Json]", value).get("sym")))
    low, high, best, *name = value
    return Dim(low, high, tuple(best), *name)


def _read_shape(value: Json) -> Shape:
    type = DType(value["type"])
    if kind := value.get("kind"):
        return Shape.sequence_of(*[_read_shape(s) for s in value["subs"]], kind=kind)
    if value["subs"] is not None:
        return Shape.tuple_of([_read_shape(s) for s in value["subs"]])
    if value["dims"] is not None:
        strides = [from_value(s) for s in value.get("dyn_strides", [])]
        return Shape.dynamic(type, [_read_dim(d) for d in value["dims"]], strides or None)
    if value.get("absent"):
        return Shape.absent(type)
    return Shape(type, value["lens"], value["strides"])


def _encoded(value: Any) -> Json:
    if isinstance(value, tuple):
        return [_encoded(v) for v in cast("tuple[Any, ...]", value)]
    if isinstance(value, DType):
        return int(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Shape):
        return _shape(value)
    if isinstance(value, Dim):
        return _dim(value)
    return _operation(value) if isinstance(value, Operation) else value


def _decoded(value: Json, hint: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, UnionType):
        return _decoded(value, next(a for a in args if a is not NoneType))
    if origin is tuple:
        return tuple(_decoded(v, args[0]) for v in value)
    if hint is Shape:
        return _read_shape(value)
    if hint is Dim:
        return _read_dim(value)
    if isinstance(hint, type) and issubclass(hint, Operation):
        return _read_operation(value)
    return hint(value) if isinstance(hint, type) else value


def _operation(op: Operation) -> Json:
    return {"name": op.name, **{k: _encoded(v) for k, v in op.attributes().items()}}


def _read_operation(value: Mapping[str, Json]) -> Operation:
    cls = find(value["name"])
    hints = _hints(cls)
    return cls(**{k: _decoded(v, hints[k]) for k, v in value.items() if k != "name"})


@cache
def _hints(cls: type[Operation]) -> dict[str, Any]:
    return get_type_hints(cls)


# Rows


def _row(row: Row, pool: _Literals) -> Json:
    return [
        row.id, row.module, row.order, _operation(row.op), _shape(row.shape), row.inputs, row.modules,
        row.sources, pool.number(row.literal), row.target_id, row.symbols,
    ]  # fmt: skip


def _read_row(value: Json, literals: list[Argument]) -> Row:
    id, module, order, op, shape, inputs, modules, sources, literal, target, *symbols = value
    data = None if literal is None else literals[int(literal)]
    return Row(
        id, module, order, _read_operation(op), _read_shape(shape), tuple(inputs), tuple(modules),
        tuple(sources), data, target, tuple(symbols[0]) if symbols else (),
    )  # fmt: skip


def _tables(rows: Rows, pool: _Literals) -> Json:
    return {
        **{name: getattr(rows, name) for name in FACTS},
        "source_nodes": [asdict(s) for s in rows.source_nodes.values()],
        "modules": [[k, *m] for k, m in rows.modules.items()],
        "instructions": [_row(r, pool) for r in rows.instructions.values()],
    }


def _rows(body: Json, literals: list[Argument]) -> Rows:
    facts: dict[str, Any] = {k: v for k, v in body.items() if k in FACTS}
    for name in ("output_names", "targets"):
        facts[name] = tuple(body.get(name, ()))
    nodes = [_source_node(n) for n in body["source_nodes"]]
    facts["source_nodes"] = {n.name: n for n in nodes}
    facts["tensors"] = {str(k): int(v) for k, v in body.get("tensors", {}).items()}
    facts["gradients"] = {int(k): int(v) for k, v in body.get("gradients", {}).items()}
    modules = {k: ModuleRow(name, bypass) for k, name, bypass in body["modules"]}
    made = [_read_row(r, literals) for r in body["instructions"]]
    return Rows(**facts, modules=modules, instructions={r.id: r for r in made})


def _source_node(value: dict[str, Json]) -> SourceNode:
    lists: dict[str, Any] = {k: tuple(value.pop(k)) for k in ("scope", "inputs", "outputs")}
    return SourceNode(**value, **lists)


# Recordings


def _recording(recording: Recording, pool: _Literals) -> Json:
    return {
        "start": _tables(recording.start, pool),
        "steps": [_step(s, pool) for s in recording.steps],
    }


def _step(step: Step, pool: _Literals) -> Json:
    return {
        "name": step.name,
        "sizes": [step.size_before, step.size_after],
        "inside": [step.before_count.inside, step.after_count.inside],
        "seconds": step.seconds,
        "error": step.error,
        "near_misses": [_miss(m) for m in step.recorded_misses],
        "edits": [_edit(e, pool) for e in step.edits],
        **({} if step.lowered is None else {"lowered": asdict(step.lowered)}),
    }


def _miss(miss: NearMiss) -> Json:
    """A near miss as it was recorded: by id, without the printed name."""
    return {key: value for key, value in miss._asdict().items() if key != "at"}


def _edit(edit: Edit, pool: _Literals) -> Json:
    rows = [[k, None if r is None else _row(r, pool)] for k, r in edit.rows.items()]
    modules = [[k, None if m is None else list(m)] for k, m in edit.modules.items()]
    plain = (
        "index", "rule", "law", "file", "line", "added", "removed", "changed", "moved", "replaced", "seconds",
    )  # fmt: skip
    return {k: getattr(edit, k) for k in plain} | {"rows": rows, "modules": modules}


def _read_edit(value: dict[str, Json], literals: list[Argument]) -> Edit:
    rows = {k: None if r is None else _read_row(r, literals) for k, r in value.pop("rows")}
    modules = {k: None if m is None else ModuleRow(*m) for k, m in value.pop("modules")}
    ids: dict[str, Any] = {k: tuple(value.pop(k)) for k in ("added", "removed", "changed", "moved")}
    pairs = tuple((old, new) for old, new in value.pop("replaced"))
    return Edit(**value, **ids, rows=rows, modules=modules, replaced=pairs)


def _read_lowered(value: Json) -> Lowered:
    rows = tuple(_read_lowered_row(row) for row in value["rows"])
    arena, made_for, note = int(value["arena"]), str(value["made_for"]), str(value["note"])
    return Lowered(rows, arena, made_for, note)


def _read_lowered_row(value: Json) -> LoweredRow:
    places = tuple(_read_place(p) for p in value["places"])
    name, kind, what = (str(value[k]) for k in ("instruction", "kind", "what"))
    return LoweredRow(int(value["id"]), name, kind, what, places)


def _read_place(value: Json) -> PlaceRow:
    arena = None if value["arena"] is None else int(value["arena"])
    return PlaceRow(str(value["root"]), int(value["offset"]), int(value["bytes"]), arena)


def _read_recording(body: Json, literals: list[Argument]) -> Recording:
    start = _rows(body["start"], literals)
    recording = Recording(build(start))
    for value in body["steps"]:
        counts = map(Counts, value["sizes"], value.get("inside", (0, 0)))
        step = Step(recording, None, value["name"], next(counts))
        step.after_count, step.seconds, step.error = next(counts), value["seconds"], value["error"]
        step.recorded_misses = [NearMiss(**m) for m in value["near_misses"]]
        step.made = [_read_edit(e, literals) for e in value["edits"]]
        step.lowered = _read_lowered(value["lowered"]) if "lowered" in value else None
        recording.restore(start, step)
    return recording
