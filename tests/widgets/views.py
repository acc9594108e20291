"""Every view that there is, made of a usual subject and of a hostile one."""

import base64
import importlib
import inspect
import json
import pkgutil
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import workbench as wb
from tests.widgets.kernels import row, rows
from tests.widgets.networks import HOSTILE, hostile, recorded, residual
from workbench import widgets
from workbench.compiler.builds.build import compile
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.numerics.compare.compare import compare
from workbench.numerics.metrics.tensor_difference import TensorDifference
from workbench.widgets.base_view import BaseView


def hostile_rows() -> list[dict[str, Any]]:
    """Two launches, all of whose texts are markup, quotes and escapes."""
    texts = ("instruction", "name", "source", "module", "log", "search")
    given = dict.fromkeys(texts, HOSTILE) | {"sources": [HOSTILE], "prologue": 0}
    return [row(k, 7 + k, HOSTILE, assembly=lambda: HOSTILE, **given) for k in range(2)]


def tensor(name: str = "@7 convolution") -> TensorDifference:
    """Two feature maps of three channels that look like images; an element is infinite, one NaN."""
    wanted = np.random.default_rng(0).standard_normal((2, 3, 6, 7))
    value = wanted.astype(np.float16)
    value[1, 2, 2, 4], value[1, 2, 2, 5] = np.inf, np.nan
    return TensorDifference(value, wanted, name, (name,))


def overflowing(name: str = "norm") -> Any:
    """A report on a fused kernel in half, inside which a product overflows."""
    program = Program(name)
    x = y = program.main.add_parameter("x", Shape("float", (4, 512)))
    for _ in range(2):
        with program.source(f"{name}/Mul"):
            y = program.main.add("mul", y, y)
    with program.source(f"{name}/Sum"):
        y = program.main.add("reduce_sum", y, axes=(1,))
    y = program.main.add("multibroadcast", y, out_lens=(4, 512))
    program.main.add_return(program.main.add("div", x, y))
    build = compile(program, target="cpu", precision="fp16")
    return compare(build, {"x": np.full((4, 512), 20, np.float32)})


def unpacked(data: Any) -> Any:
    """The value of a packed trait, or of data in a page, as the browser reads it; columns are lists."""
    packed = data if isinstance(data, bytes) else base64.b64decode(data["deflated"])
    text, _, columns = zlib.decompress(packed).partition(b"\0")
    ints = np.frombuffer(columns[(3 - len(text)) % 4 :], "<i4")

    def column(value: dict[str, Any]) -> Any:
        return (
            np.cumsum(ints[slice(*value["ints"])]).tolist() if value.keys() == {"ints"} else value
        )

    return json.loads(text, object_hook=column)


def built(program: Any) -> Any:
    """A build, so that the view of the whole workbench has passes and memory to show."""
    return wb.compile(program, "cpu")


SUBJECTS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "program_or_module": (lambda: residual(2), hostile),
    "recording": (lambda: recorded(residual(2)), lambda: recorded(hostile())),
    "report": (cache(overflowing), cache(lambda: overflowing(HOSTILE))),
    "program": (lambda: built(residual(2)), lambda: built(hostile())),
    "rows": (rows, hostile_rows),
    "tensor": (tensor, lambda: tensor(HOSTILE)),
}
"""Subjects by the name of a view's first parameter: a usual one and a hostile one."""


def found() -> list[type[BaseView]]:
    """Every view of the package that has a module for the browser."""
    for module in pkgutil.iter_modules(widgets.__path__):
        importlib.import_module(f"workbench.widgets.{module.name}")
    seen: list[type[BaseView]] = []
    open_ends = [BaseView]
    while open_ends:
        for view in open_ends.pop().__subclasses__():
            open_ends.append(view)
            if "_esm" in vars(view) and view.__module__.startswith("workbench."):
                seen.append(view)
    return sorted(seen, key=lambda view: view.__name__)


def made(view: type[BaseView], *, unfriendly: bool = False, **options: Any) -> Any:
    """A view of the subject that its first parameter asks for."""
    subject = next(iter(inspect.signature(view).parameters))
    assert subject in SUBJECTS, f"{view.__name__}({subject}): a row in tests/widgets/views.py says"
    return view(SUBJECTS[subject][unfriendly](), **options)
