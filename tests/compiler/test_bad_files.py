"""Damaged and hostile files and texts: every one is refused by an error of ours, in bounded memory."""

import json
import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import InputError, ModelError, ShapeError, TextError, WorkbenchError
from workbench.compiler.files import archive
from workbench.compiler.files.npz import read_npz
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.text.parsing import parse

HUGE = 1 << 40
TEXT = """module: "main"
x = @param:x -> float_type, {2, 3}, {3, 1}
c = @param:c -> bool_type, {1}, {1}
@2 = @literal{1, 2, 3} -> float_type, {3}, {1}
@3 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@2) -> float_type, {2, 3}, {0, 1}
@4 = if(c), ["then", "else"] -> [float_type, {2, 3}, {3, 1}]
@5 = get_tuple_elem[index=0](@4) -> float_type, {2, 3}, {3, 1}
@6 = pointwise(@5,@3), ["main:pointwise0"] -> float_type, {2, 3}, {3, 1} # symbol
@7 = @return(@6)

module: "then"
then:@0 = @return(x)

module: "else"
else:@0 = neg(x) -> float_type, {2, 3}, {3, 1}
else:@1 = @return(else:@0)

module: "main:pointwise0"
main:pointwise0:x0 = @param:x0 -> float_type, {1}, {0}
main:pointwise0:x1 = @param:x1 -> float_type, {1}, {0}
main:pointwise0:@2 = add(main:pointwise0:x0,main:pointwise0:x1) -> float_type, {1}, {0}
main:pointwise0:@3 = @return(main:pointwise0:@2)
"""


def program() -> Program:
    return parse(TEXT)


# Saved files


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    made = program()
    made.main.add_literal(np.arange(64, dtype=np.float32))
    wb.save(made, tmp_path / "p.wb")
    return tmp_path / "p.wb"


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def written(path: Path, document: bytes | str, literals: dict[str, bytes] | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("document.json", document, zipfile.ZIP_DEFLATED)
        for name, data in (literals or {}).items():
            file.writestr(name, data)
    return path


def damaged(data: bytes, seed: int) -> bytes:
    """Some bytes changed, cut out or doubled."""
    random = np.random.default_rng(seed)
    found = bytearray(data)
    for _ in range(random.integers(1, 5)):
        at, length = random.integers(0, max(1, len(found))), random.integers(1, 9)
        match random.integers(0, 3):
            case 0:
                found[at : at + length] = random.bytes(length)
            case 1:
                del found[at : at + length]
            case _:
                found[at:at] = found[at : at + 40]
    return bytes(found)


def test_damaged_files_are_read_or_refused(saved: Path):
    data = saved.read_bytes()
    for seed in range(300):
        saved.write_bytes(damaged(data, seed))
        with suppress(ModelError):
            wb.load(saved)


def test_damaged_documents_are_read_or_refused(saved: Path):
    parts = members(saved)
    document = parts.pop("document.json")
    for seed in range(300):
        written(saved, damaged(document, seed), parts)
        with suppress(ModelError):
            wb.load(saved)


NESTED = ("[" * 100_000, '{"a":' * 100_000, "[" * 900 + "]" * 900)


@pytest.mark.parametrize("document", NESTED)
def test_a_deep_document_is_refused(tmp_path: Path, document: str):
    with pytest.raises(ModelError, match=r"p\.wb"):
        wb.load(written(tmp_path / "p.wb", document))


def test_a_deep_shape_is_refused(saved: Path):
    parts = members(saved)
    document = json.loads(parts.pop("document.json"))
    shape = document["literals"][0]
    for _ in range(200):
        shape = {"type": 0, "lens": [], "strides": [], "dims": None, "subs": [shape], "kind": ""}
    document["literals"][0] = shape
    with pytest.raises(ModelError, match=r"p\.wb.* tuples in each other; expected at most"):
        wb.load(written(saved, json.dumps(document), parts))


def test_a_document_is_not_unpacked_to_many_times_its_size(tmp_path: Path):
    path = written(tmp_path / "p.wb", b" " * (archive._PLAIN_BYTES + 1))
    assert path.stat().st_size < 1 << 16
    with pytest.raises(ModelError, match=r"document\.json has 16,777,217 bytes in .*; expected at"):
        wb.load(path)


def test_a_document_of_very_many_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive, "MAX_VALUES", 1000)
    with pytest.raises(ModelError, match="about 1,001 values; expected at most 1,000"):
        wb.load(written(tmp_path / "p.wb", "[" * 1001))


def test_literals_may_not_share_what_is_stored(saved: Path):
    """A file of a megabyte could hold thousands of literals of a megabyte each."""
    document = json.loads(members(saved)["document.json"])
    shape = document["literals"][-1] | {"lens": [1000], "strides": [1]}
    document["literals"] = [shape] * 50
    with zipfile.ZipFile(saved, "w") as file:
        file.writestr("document.json", json.dumps(document))
        file.writestr("literals/0", bytes(4000))
        for number in range(1, 50):
            info = zipfile.ZipInfo(f"literals/{number}")
            first = file.getinfo("literals/0")
            info.header_offset, info.CRC = first.header_offset, first.CRC
            info.file_size = info.compress_size = 4000
            file.filelist.append(info)
    with pytest.raises(ModelError, match="its members take"):
        wb.load(saved)


def test_a_literal_larger_than_the_file_is_refused(saved: Path):
    parts = members(saved)
    document = json.loads(parts.pop("document.json"))
    document["literals"][0] |= {"lens": [HUGE], "strides": [1]}
    with pytest.raises(ModelError, match=f"expected {4 * HUGE} stored bytes"):
        wb.load(written(saved, json.dumps(document), parts))


# Texts


def test_damaged_texts_are_read_or_refused():
    for seed in range(400):
        text = damaged(TEXT.encode(), seed).decode(errors="replace")
        with suppress(TextError):
            parse(text, fill_seed=0)


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ("float_type", r"line 2, column 17: shape 'float_type': expected a type, lens and strides"),
        ("float_type, {2}, {1}, {1}", "expected a type, lens and strides"),
        ("float_type, {2", "column 17: expected numbers in braces"),
        ("dynamic, float_type", "expected a type, lens and strides"),
        ("[" * 5000 + "]" * 5000, "line 2, column 17: "),
        ("[" * 40 + "float_type, {2}, {1}" + "]" * 40, "tuples in each other; expected at most 32"),
        ("sequence(" * 2000 + ")" * 2000, "line 2, column 17: "),
        (
            f"float_type, {{{', '.join('1' * 65)}}}, {{{', '.join('1' * 65)}}}",
            "65 dimensions; expected",
        ),
        ("float_type, {" + "(" * 5000 + "n" + ")" * 5000 + "}, {1}", "line 2, column 17: "),
    ],
    ids=[
        "type",
        "four",
        "open",
        "dynamic",
        "brackets",
        "tuples",
        "sequences",
        "rank",
        "parentheses",
    ],
)
def test_odd_shapes_are_refused_with_their_line(shape: str, match: str):
    with pytest.raises(TextError, match=match):
        parse(f'module: "main"\nx = @param:x -> {shape}\n')


def test_modules_that_lie_deep_in_each_other_are_refused():
    blocks = ['module: "main"\nc = @param:c -> bool_type, {1}, {1}\nx = if(c), [m0, m0]\n']
    blocks += [f'module: "m{k}"\nx{k} = if(c), [m{k + 1}, m{k + 1}]\n' for k in range(3000)]
    with pytest.raises(TextError, match=r"line .*: .* too deep in each other"):
        parse("\n".join(blocks))


def test_random_literals_are_bounded_together():
    line = f"= @literal{{ ... }} -> float_type, {{{HUGE}}}, {{1}}"
    with pytest.raises(TextError, match=r"line 2.*: .*take 4,398,046,511,104 bytes; .*literals="):
        parse(f'module: "main"\nw {line}\n', fill_seed=0)


@pytest.mark.parametrize("name", ["x[", "]x", "x[0", "}{", "([)]", "{", "x], [y"])
def test_names_with_brackets_read_back(name: str):
    made = Program()
    x = made.main.add_parameter(name, Shape("float", (2,)))
    c = made.main.add_parameter("c", Shape("bool", (1,)))
    bodies = [made.create_module(f"{name}{k}") for k in range(2)]
    for body in bodies:
        body.add_return(body.add("neg", body.add_parameter(name, Shape("float", (2,)))))
    made.main.add_return(made.main.insert(None, "if", c, x, modules=bodies))
    assert str(parse(str(made))) == str(made)


def test_a_shape_has_as_many_dimensions_as_an_array_may():
    assert Shape("float", [1] * 64).ndim == 64
    for make in (Shape, Shape.dynamic):
        with pytest.raises(ShapeError, match="65 dimensions; expected at most 64"):
            make(DType.FLOAT, [1] * 65)
    with pytest.raises(ShapeError, match="65 dimensions"):
        Shape.dynamic(DType.FLOAT, [Dim(1, 2)] * 65)


# Inputs on the command line

WANTED = {"x": Shape("float", (2, 3)), "n": Shape.dynamic(DType.FLOAT, [Dim(1, 1 << 40)])}


def npz(path: Path, header: str | None = None, size: int = 0, **arrays: np.ndarray) -> Path:
    """An .npz file; with ``header``, of one array x that says so of itself and has ``size`` zeros."""
    np.savez_compressed(path, **arrays)
    if header is not None:
        text = header.ljust(117) + "\n"
        start = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("x.npy", start + bytes(size))
    return path


def test_arrays_are_read(tmp_path: Path):
    x = np.arange(6, dtype=np.float64).reshape(2, 3)
    found = read_npz(npz(tmp_path / "a.npz", x=x, n=x[0]), WANTED)
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["n"], x[0])


def test_damaged_arrays_are_read_or_refused(tmp_path: Path):
    data = npz(tmp_path / "a.npz", x=np.arange(6.0).reshape(2, 3)).read_bytes()
    for seed in range(300):
        (tmp_path / "a.npz").write_bytes(damaged(data, seed))
        with suppress(InputError):
            read_npz(tmp_path / "a.npz", WANTED)


def described(lens: str, type: str = "<f4") -> str:
    return f"{{'descr': '{type}', 'fortran_order': False, 'shape': {lens}, }}"


@pytest.mark.parametrize(
    ("header", "size", "match"),
    [
        (described(f"({HUGE},)"), 0, "takes 4,398,046,511,104 bytes; parameter .* has at most 96"),
        (described("(2, 3)"), 1 << 24, "takes 24 bytes; 16,777,216 are there: the file is damaged"),
        (described("(2, 3)"), 3, "takes 24 bytes; 3 are there"),
        (described("(2, 3)", "|O"), 48, "Python objects"),
        ("(" * 116, 8, "expected an .npz file of arrays"),
    ],
    ids=["more than fits", "longer than it says", "shorter", "objects", "no header"],
)
def test_arrays_of_other_sizes_are_refused(tmp_path: Path, header: str, size: int, match: str):
    with pytest.raises(InputError, match=match):
        read_npz(npz(tmp_path / "a.npz", header, size), WANTED)


def test_arrays_that_no_parameter_takes_are_not_read(tmp_path: Path):
    with pytest.raises(InputError, match="no parameter is called 'y'; parameters are x, n"):
        read_npz(npz(tmp_path / "a.npz", y=np.zeros(1 << 20)), WANTED)


def test_an_input_whose_length_is_open_is_bounded_too(tmp_path: Path):
    with pytest.raises(InputError, match="at most 2,147,483,648"):
        read_npz(
            npz(tmp_path / "a.npz", described(f"({HUGE},)").replace("x", "n")), {"x": WANTED["n"]}
        )


# Pipes

IMAGE = wb.Program()
IMAGE.main.add_parameter("image", Shape("float", (1, 3, 4, 4)))
READERS: dict[str, Callable[[Path], object]] = {
    "a.onnx": wb.parse_onnx,
    "a.pb": wb.parse_tf,
    "a.wb": wb.load,
    "a.mxr": wb.load,
    "a.json": wb.load,
    "a.npz": lambda path: read_npz(path, WANTED),
    "a.npy": lambda path: wb.read_inputs(IMAGE, path),
    "a.png": lambda path: wb.read_inputs(IMAGE, path),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / name)
    with pytest.raises(WorkbenchError, match=rf"{name}: this is a .*pipe or a device; expected"):
        READERS[name](tmp_path / name)


def test_what_is_no_path_at_all_is_refused():
    for name in ("\0", "a" * 5000):
        for suffix, reader in READERS.items():
            with pytest.raises((WorkbenchError, OSError, ValueError)):
                reader(Path(name + suffix))
