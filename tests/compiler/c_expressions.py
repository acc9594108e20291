"""Evaluates the scalar expressions of pointwise operations on arrays: what a kernel would compute."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.compiler.ir.operation import Operation
from workbench.compiler.ops.elementwise import cast
from workbench.compiler.ops.special import erf

TOKEN = re.compile(r"\s*(\d+\.?\d*(?:e[-+]?\d+)?|\w+|&&|\|\||[=!<>]=|.)")
LEVELS = [
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("+", "-"),
    ("*", "/"),
]
INFIX: dict[str, Callable[..., Any]] = {
    "|": np.bitwise_or, "^": np.bitwise_xor,
    "||": np.logical_or, "&&": np.logical_and, "&": np.bitwise_and, "==": np.equal,
    "!=": np.not_equal, "<": np.less, ">": np.greater, "<=": np.less_equal,
    ">=": np.greater_equal, "+": np.add, "-": np.subtract, "*": np.multiply,
}  # fmt: skip
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
               "acosh": "arccosh", "atan2": "arctan2", "atanh": "arctanh", "max": "maximum", "min": "minimum",
               "nearbyint": "rint", "pow": "power", "shift_left": "left_shift",
               "shift_right": "right_shift"}  # fmt: skip


class Evaluator:
    """A recursive descent over one expression; values are arrays."""

    def __init__(self, op: Operation, operands: list[np.ndarray], type: np.dtype):
        missing = [np.zeros(1, type)] * (3 - len(operands))
        self.operands = [signed(x) for x in [*operands, *missing]]
        self.type = type
        names = [f"operand{i}" for i in range(len(self.operands))]
        assert op.expression is not None
        text = op.expression.format(*names, **op.attributes())
        self.tokens = TOKEN.findall(text.rstrip())

    def run(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            value = self.choice()
        assert not self.tokens, f"not understood: {self.tokens}"
        return cast(np.asarray(value), self.type)

    def accept(self, *tokens: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in tokens else None

    def expect(self, token: str) -> None:
        assert self.accept(token), f"expected {token}, found {self.tokens}"

    def choice(self):
        condition = self.level(0)
        if not self.accept("?"):
            return condition
        yes = self.choice()
        self.expect(":")
        return np.where(condition, yes, self.choice())

    def level(self, depth: int):
        if depth == len(LEVELS):
            return self.prefix()
        value = self.level(depth + 1)
        while token := self.accept(*LEVELS[depth]):
            other = self.level(depth + 1)
            value = divided(value, other) if token == "/" else INFIX[token](value, other)
        return value

    def prefix(self):
        if self.accept("-"):
            return -self.prefix()
        if self.accept("~"):
            return ~self.prefix()
        if self.accept("("):
            value = self.choice()
            self.expect(")")
            return value
        token = self.tokens.pop(0)
        if token.startswith("operand"):
            return self.operands[int(token.removeprefix("operand"))]
        if token[0].isdigit():
            return float(token)
        return self.call(token)

    def call(self, name: str):
        self.expect("(")
        arguments = [self.choice()]
        while self.accept(","):
            arguments.append(self.choice())
        self.expect(")")
        return self.function(name)(*arguments)

    def function(self, name: str) -> Callable[..., Any]:
        own = {
            "T": lambda x: cast(np.asarray(x), self.type),
            "bit_cast": lambda x: x.view(self.type),
            "erf": erf,
            "mod": np.mod,
            "quantized": self.quantized,
            "rsqrt": lambda x: 1 / np.sqrt(x),
        }
        return own.get(name) or getattr(np, NUMPY_NAMES.get(name, name))

    def quantized(self, value, zero):
        whole = np.rint(value) if self.type.kind in "iu" else value
        return cast(whole + zero.astype(value.dtype), self.type)


def signed(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int8) if x.dtype == np.bool_ else x


def divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if np.result_type(x, y).kind in "iu":
        return np.trunc(x / y).astype(np.result_type(x, y))
    return np.divide(x, y)


def evaluate(op: Operation, operands: list[np.ndarray], type: np.dtype) -> np.ndarray:
    """The value of an operation's expression, as an array of ``type``."""
    return Evaluator(op, operands, type).run()
