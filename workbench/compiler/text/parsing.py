"""Reads the text form back into a program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from workbench.compiler.errors import TextError, WorkbenchError, did_you_mean
from workbench.compiler.ir.argument import Argument
from workbench.compiler.ir.debug_symbols import add_debug_symbols
from workbench.compiler.ir.dtypes import Array, DType
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.operation import Operation, find, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.quoting import unquoted
from workbench.compiler.ir.ranges import strict_shape
from workbench.compiler.ir.shape import Dim, Shape
from workbench.compiler.ir.sym.text import (
    is_symbolic,
    read_dim,
    read_dims,
    read_shape,
    symbols_of_text,
)

_LINE = re.compile(r"(?P<name>\S.*?) = (?P<rest>.*)$", re.DOTALL)
_TIGHT = re.compile(r"(?P<name>@?\w+)\s*=\s*(?P<rest>[^\s=].*)$", re.DOTALL)
_NAMELESS = re.compile(r"(?P<name>)(?P<rest>@return\(.*)$", re.DOTALL)
_OWN_NAME = re.compile(r"[A-Za-z_]\w*")
_NEXT_ATTRIBUTE = re.compile(r", +(?=\w+=)")
_COMMENT = re.compile(r"\s*#(\s|$)")
_MODULE = re.compile(r'module: (?P<name>".*")$')
_FIXED = re.compile(r"dynamic, \w+, \{\d+(, \d+)*\}")
_SCALAR = re.compile(r" = @(param:|literal).* -> \w+, \{1\}, \{0\}")
_BOOLS = {"0": False, "1": True, "false": False, "true": True}
_OPEN, _CLOSE = "([{", ")]}"
Number = TypeVar("Number", int, float)
_SHOWN = 1000
MAX_FILLED_BYTES = 1 << 33
"""Bytes of all literals of a text that ``fill_seed`` fills."""


def parse(
    text: str,
    literals: Mapping[str, Array] | None = None,
    fill_seed: int | None = None,
    keep_names: bool = False,
    newest_first: bool = False,
) -> Program:
    """Parse the text form of a program, as printed or as written by hand.

    By hand, a line begins with any name, lines that begin with ``# `` are comments, and much may be left out:
    the line ``module: "main"``, strides, the shape after an operation, the type and shape of a literal (then
    float numbers), and the name before ``@return``::

        x = @param:x -> float_type, {2, 3}
        two = @literal{2}
        y = multibroadcast[out_lens={2, 3}](two)
        z = mul(x, y)
        @return(z)

    Args:
        text: The output of ``str(program)``, or a text like the one above.
        literals: Elements of literals by printed name, required for those printed as
            ``{ ... }``; ``text.literals(program)`` returns all.
        fill_seed: Fill the remaining elided literals with normal random numbers from this seed.
        keep_names: Keep the names of lines that are words as debug symbols, which are printed after the
            instructions and stay with them through passes.
        newest_first: Take the last line of a parameter for the first one, for texts that MIGraphX, its
            driver or its drop-in printed; programs say so by ``program.newest_first``.

    Raises:
        TextError: A line does not parse, or an elided literal has no data, or too much; the message names
            the line, the column and what was expected.
    """
    with symbols_of_text(text):
        reader = _Reader(text, dict(literals or {}), fill_seed, keep_names, newest_first)
        try:
            return reader.read()
        except RecursionError:
            reader.fail("what it says lies too deep in each other")


class _Reader:
    """Reads module by module; a module may be used before the lines that define it."""

    def __init__(
        self,
        text: str,
        literals: dict[str, Array],
        fill_seed: int | None,
        keep_names: bool,
        newest_first: bool,
    ) -> None:
        self.program = Program()
        self.text = text
        self.keep_names = keep_names
        self.newest_first = newest_first
        self.at = (0, "")
        self.piece = ""
        self.blocks = self._blocks(text)
        self.done: dict[str, Module] = {}
        self.named: dict[str, Instruction] = {}
        self.literals = literals
        self.random = None if fill_seed is None else np.random.default_rng(fill_seed)
        self.filled = 0

    def read(self) -> Program:
        self.program.keeps_fixed = _FIXED.search(self.text) is not None
        self.program.scalars = any(_SCALAR.search(line) for _, line in self.blocks.get("main", ()))
        if "main" not in self.blocks:
            raise TextError('expected a line module: "main"; found none')
        for name in self.blocks:
            self._module(name)
        self.program.newest_first = self.newest_first
        return self.program

    def _blocks(self, text: str) -> dict[str, list[tuple[int, str]]]:
        blocks: dict[str, list[tuple[int, str]]] = {}
        current: list[tuple[int, str]] | None = None
        for number, line in enumerate(text.split("\n"), 1):
            self.at = (number, line)
            if header := _MODULE.match(line):
                shown = header["name"]
                name = unquoted(shown) if "\\" in shown else shown[1:-1]
                current = blocks.setdefault(name, [])
                if current:
                    self.fail(f"module {name!r} is defined twice")
            elif line.strip() and not _COMMENT.match(line):
                if current is None:
                    current = blocks.setdefault("main", [])
                current.append((number, line.lstrip()))
        return blocks

    def _module(self, name: str) -> Module:
        if name in self.done:
            return self.done[name]
        if name not in self.blocks:
            self.fail(f"module {name!r} is not defined")
        module = self.program.main if name == "main" else self.program.create_module(name)
        self.done[name] = module
        for at in self.blocks[name]:
            self.at = at
            try:
                self._line(module, at[1])
            except (WorkbenchError, LookupError, ValueError, TypeError, ArithmeticError) as error:
                if isinstance(error, TextError) and str(error).startswith("line "):
                    raise  # of a module that this line calls, or with its place already
                raise TextError(self._placed(str(error))) from error
        if self.newest_first:
            module.reverse_parameters()
        return module

    def _line(self, module: Module, line: str) -> None:
        self.piece = ""
        found = _LINE.match(line) or _TIGHT.match(line) or _NAMELESS.match(line)
        if not found:
            self.fail("expected `name = operation(inputs) -> shape`")
        body, arrow, shape_text = found["rest"].rpartition(" -> ")
        rest, _, symbols = (shape_text if arrow else found["rest"]).partition(" # ")
        body, shape_text = (body, rest) if arrow else (rest, "")
        shape_text, _, target = shape_text.partition(", target_id=")
        made = self._instruction(
            module, found["name"], body.rstrip(), shape_text if arrow else None
        )
        add_debug_symbols(made, [unquoted(s) for s in symbols.split(", ")] if symbols else [])
        if self.keep_names and made.parameter is None and _OWN_NAME.fullmatch(found["name"]):
            add_debug_symbols(made, [found["name"]])
        if target:
            module.set_target(made, int(target))
        self.piece = shape_text
        shape = parse_shape(shape_text)
        if shape_text and made.shape != shape and str(made.shape) != str(shape):
            strictly = strict_shape(made.op, [i.shape for i in made.inputs], made.modules)
            if strictly is None or str(strictly) != shape_text:
                self.fail(f"the line says {shape}, but the operation gives {made.shape}")
            self.program.follow_migraphx()
            module.set_shape(made, strictly)
        self.named[found["name"]] = made

    def _instruction(self, module: Module, name: str, body: str, shape: str | None) -> Instruction:
        """The instruction of a line; the shape is None where the line has none."""
        self.piece = body if shape is None else shape
        if body.startswith("@param:"):
            if shape is None:
                self.fail("expected a shape: x = @param:x -> float_type, {2, 3}")
            own = unquoted(body.removeprefix("@param:"))
            made = module.add_parameter(own, parse_shape(shape))
            module.move(made, None)
            return made
        if body.startswith("@literal"):
            made = module.add_literal(self._literal(name, body, shape))
            module.move(made, None)
            return made
        if body.startswith("@comment:"):
            return module.insert(None, make("@comment", text=body.removeprefix("@comment:")[1:]))
        head, _, modules = _split_modules(body)
        op, inputs = _split_call(head)
        called = [self._called(m) for m in modules.split(", ")] if modules else []
        self.piece = op
        is_load = op.startswith("load[")
        operation = _loaded(op, shape or "") if is_load else parse_operation(op)
        if operation.name in BYPASSED:
            for one in called:
                one.bypass = True
        values = self._values(inputs)
        self.piece = op
        return module.insert(None, operation, *values, modules=called)

    def _called(self, name: str) -> Module:
        """A module that a line calls; reading it moves the place of errors."""
        at, self.piece = self.at, name
        found = self._module(unquoted(name))
        self.at = at
        return found

    def _values(self, text: str) -> list[Instruction]:
        found: list[Instruction] = []
        for part in text.split(",") if text else []:
            name = part if part in self.named else part.strip()
            if name not in self.named:
                self.piece = name
                hint = did_you_mean(name, self.named, repr)
                self.fail(f"{name!r} is not defined before this line{hint}")
            found.append(self.named[name])
        return found

    def _literal(self, name: str, body: str, shape_text: str | None) -> Argument:
        """A literal; without a shape, float numbers: one of rank 0, or several along one axis."""
        inner = body.removeprefix("@literal").strip("{}").strip()
        values = [v.strip() for v in inner.split(",")] if inner else []
        if shape_text is not None:
            shape = parse_shape(shape_text)
        elif inner == "...":
            self.fail("expected a shape: w = @literal{ ... } -> float_type, {64, 3}")
        else:
            shape = Shape(DType.FLOAT, (len(values),) if len(values) != 1 else ())
        if name in self.literals:
            return Argument(shape, np.asarray(self.literals[name], shape.type.numpy))
        if inner != "...":
            self.piece = body
            return literal_of(values, shape)
        if self.random is None:
            self.fail(
                f"the elements of literal {name} are elided; pass literals={{{name!r}: array}}, "
                "or fill_seed=0 for random ones"
            )
        self.filled += shape.bytes
        if self.filled > MAX_FILLED_BYTES:
            self.fail(
                f"random elements of literal {name} and those before take {self.filled:,} bytes; expected "
                f"at most {MAX_FILLED_BYTES:,}; give them with literals={{{name!r}: array}}"
            )
        drawn = self.random.standard_normal(shape.elements).astype(shape.type.numpy)
        return Argument(shape, drawn.reshape(shape.lens))

    def fail(self, message: str) -> NoReturn:
        """Say what is wrong with the line that is read."""
        raise TextError(self._placed(message))

    def _placed(self, message: str) -> str:
        """A message with the line, and the column of the piece of it that was read last."""
        number, line = self.at
        column = self.text.split("\n")[number - 1].find(self.piece) + 1 if self.piece else 0
        place = f"line {number}, column {column}" if column else f"line {number}"
        return f"{place}: {message}; in {_shown(line)}"


def _shown(line: str) -> str:
    return repr(line if len(line) <= _SHOWN else f"{line[:_SHOWN]} …")


BYPASSED = frozenset({"pointwise", "fused_reduce", "split_fused_reduce", "fused_concat", "group"})
"""Operations whose module arguments are bodies that passes leave alone."""


def literal_of(values: list[str], shape: Shape) -> Argument:
    """A literal from the printed text of its elements."""
    number = float if shape.type.is_float else int
    array = np.array([_number(v, number) for v in values]).astype(shape.type.numpy)
    if not values and shape.has_rank_0:
        shape = Shape.absent(shape.type)
    return Argument(shape, array.reshape(shape.array_lens))


_KINDS = ("sequence(", "optional(")


def parse_shape(text: str) -> Shape:
    """Parse the output of ``str(shape)``."""
    if not text:
        return Shape.absent()
    if text.startswith("["):
        return Shape.tuple_of(_tuple_parts(text[1:-1]))
    if text.startswith(_KINDS):
        kind, _, inner = text[:-1].partition("(")
        return Shape.sequence_of(parse_shape(inner) if inner else None, kind)
    parts = split_top(text)
    if len(parts) == 2 and parts[0] != "dynamic" and parts[1].startswith("{"):
        return Shape(DType.of(parts[0]), _ints(parts[1]))  # by hand; the strides follow
    if len(parts) != 3:
        raise TextError(
            f"shape {text!r}: expected a type, lens and strides: float_type, {{2, 3}}, {{3, 1}}"
        )
    if parts[0] == "dynamic":
        return Shape.dynamic(DType.of(parts[1]), [read_dim(d) for d in split_top(parts[2][1:-1])])
    if is_symbolic(dims := split_top(parts[1][1:-1])):
        return read_shape(DType.of(parts[0]), dims, split_top(parts[2][1:-1]))
    return Shape(DType.of(parts[0]), _ints(parts[1]), _ints(parts[2]))


def _tuple_parts(text: str) -> list[Shape]:
    shapes: list[Shape] = []
    parts = split_top(text)
    while parts:
        take = 1 if parts[0].startswith(("[", *_KINDS)) else 3
        shapes.append(parse_shape(", ".join(parts[:take])))
        parts = parts[take:]
    return shapes


def _ints(text: str) -> list[int]:
    return [_number(v, int) for v in split_top(_braced(text))]


def _braced(text: str) -> str:
    """The text between braces.

    Raises:
        TextError: It does not begin and end with one.
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise TextError(f"expected numbers in braces, such as {{2, 3}}; found {text!r}")
    return text[1:-1]


def _number(text: str, kind: type[Number]) -> Number:
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise TextError(f"expected {wanted}; found {text!r}") from None


def parse_operation(text: str) -> Operation:
    """Parse the output of ``str(op)``."""
    if text.startswith("unknown:"):
        return make("unknown:", op=unquoted(text.removeprefix("unknown:")))
    name, bracket, inner = text.partition("[")
    if not bracket:
        return make(name)
    hints = _hints(find(name))
    given = dict(_attribute(part) for part in _split_attributes(inner[:-1]))
    return make(name, **{k: convert(v, hints.get(k, str)) for k, v in given.items()})


def _split_attributes(text: str) -> list[str]:
    """The attributes of an operation; by hand they may have a space after the comma."""
    parts = split_top(text, spaced=False)
    return [one for part in parts for one in _NEXT_ATTRIBUTE.split(part)]


def _loaded(text: str, shape: str) -> Operation:
    """A load, whose shape is printed after the arrow: ``load[offset=0,end=512]``."""
    offset = dict(map(_attribute, split_top(text[5:-1], spaced=False)))["offset"]
    return make("load", shape=parse_shape(shape), offset=int(offset))


def _attribute(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


@cache
def _hints(cls: type[Operation]) -> dict[str, Any]:
    return get_type_hints(cls)


def convert(text: str, hint: Any) -> Any:
    """Parse an attribute value of type ``hint``.

    Raises:
        TextError: The text is not a value of that type.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return (
            None if text == "nullopt" else convert(text, next(a for a in args if a is not NoneType))
        )
    if origin is tuple:
        parts = split_top(_braced(text))
        return tuple(read_dims(parts) if args[0] is Dim else [convert(v, args[0]) for v in parts])
    if hint is Shape:
        return parse_shape(text)
    if hint is Dim:
        return read_dim(text)
    if hint is bool:
        if text not in _BOOLS:
            raise TextError(f"expected 1 or 0; found {text!r}")
        return _BOOLS[text]
    if hint is str:
        return unquoted(text)
    if hint is float:
        return _float(text)
    return _convert_simple(text, hint)


def _float(text: str) -> float:
    """A float attribute: the float32 nearest to its six printed digits, as in models and MIGraphX."""
    value = _number(text, float)
    with np.errstate(over="ignore", under="ignore"):
        single = float(np.float32(value))
    return single if np.isfinite(single) and bool(single) == bool(value) else value


def _convert_simple(text: str, hint: Any) -> Any:
    if not isinstance(hint, type):
        raise TextError(f"cannot read {text!r} as {hint}")
    if issubclass(hint, DType):
        return DType(int(text))
    if issubclass(hint, Operation):
        return parse_operation(text)
    if issubclass(hint, Enum):
        if found := [m for m in hint if str(m.value) == text]:
            return found[0]
        raise TextError(f"{text!r}: expected one of {', '.join(str(m.value) for m in hint)}")
    return _number(text, hint) if hint is int else hint(text)


def split_top(text: str, spaced: bool = True) -> list[str]:
    """Split at commas outside of all brackets; with ``spaced``, only at commas followed by a space."""
    parts: list[str] = []
    depth, start = 0, 0
    for i, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if char == "," and depth == 0 and (text[i + 1 : i + 2] == " ") == spaced:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def _split_modules(body: str) -> tuple[str, str, str]:
    if not body.endswith("]") or ", [" not in body:
        return body, "", ""
    head, sep, modules = body.rpartition(", [")
    balanced = all(head.count(a) == head.count(b) for a, b in zip(_OPEN, _CLOSE, strict=True))
    return (head, sep, modules[:-1]) if balanced else (body, "", "")


def _split_call(head: str) -> tuple[str, str]:
    if not head.endswith(")"):
        if "(" in head.partition("[")[0]:
            raise TextError(f"expected ) at the end of the inputs; found {head!r}")
        return head, ""
    depth = 0
    for i in range(len(head) - 1, -1, -1):
        depth += (head[i] == ")") - (head[i] == "(")
        if depth == 0:
            return head[:i], head[i + 1 : -1]
    raise TextError(f"unbalanced parentheses in {head!r}")
