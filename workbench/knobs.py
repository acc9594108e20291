"""Every option and environment variable of the workbench, once, with its type and meaning.

Read one as an attribute (`knobs.validate`). `with knobs.scope(validate=True):` sets it for a block, in
this thread alone; an assignment (`knobs.validate = True`) sets it for the process. The environment gives
the value at each read, unless a scope or an assignment has set it.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

_scope: ContextVar[Mapping[str, Any]] = ContextVar("options", default={})  # noqa: B039 (read only)
"""Options set by the enclosing `scope` blocks, by name."""

_YES = {"1", "true", "yes", "on"}
_NO = {"", "0", "false", "no", "off"}


class OptionError(ValueError):
    """An environment variable with an invalid value for its option."""


class Knob(Generic[T]):
    """One option: its environment variable, type, default and meaning.

    Args:
        variable: Name of the environment variable.
        default: The value if nothing is set.
        parse: Turns the variable's text into a value; raises `ValueError` if it is invalid.
        help: Its meaning, in one sentence.
    """

    def __init__(self, variable: str, default: T, parse: Callable[[str], T], help: str) -> None:
        self.variable = variable
        self.default = default
        self.parse = parse
        self.help = help
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, knobs: None, owner: type) -> "Knob[T]": ...
    @overload
    def __get__(self, knobs: "Knobs", owner: type) -> T: ...
    def __get__(self, knobs: "Knobs | None", owner: type) -> "Knob[T] | T":
        if knobs is None:
            return self
        for values in (_scope.get(), knobs.assigned):
            if self.name in values:
                return values[self.name]
        return self.from_environment()

    def __set__(self, knobs: "Knobs", value: T) -> None:
        knobs.assigned[self.name] = value

    def from_environment(self) -> T:
        """The variable's value, or the default if it is not set.

        Raises:
            OptionError: The variable has an invalid value for this option.
        """
        text = os.environ.get(self.variable)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise OptionError(f"{self.variable}={text!r}: {error}") from error


def flag(text: str) -> bool:
    """Parses the text of a yes-or-no variable."""
    word = text.strip().lower()
    if word not in _YES | _NO:
        raise ValueError("expected 1 or 0 (true, yes, on; false, no, off)")
    return word in _YES


def count(text: str) -> int:
    """Parses the text of a variable that holds a count."""
    number = int(text)
    if number < 0:
        raise ValueError("expected 0 or more")
    return number


def names(text: str) -> tuple[str, ...]:
    """Parses the text of a variable that holds names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


class Knobs:
    """The options. There is one instance, `knobs`."""

    validate = Knob(
        "WORKBENCH_VALIDATE",
        default=False,
        parse=flag,
        help="Check the whole program after every pass, and name the pass that broke it.",
    )
    static = Knob(
        "WORKBENCH_STATIC",
        default=False,
        parse=flag,
        help="Show static pictures in notebooks instead of widgets.",
    )
    progress = Knob(
        "WORKBENCH_PROGRESS",
        default=True,
        parse=flag,
        help="Show a progress bar when a run is long.",
    )
    threads = Knob(
        "WORKBENCH_THREADS",
        default=0,
        parse=count,
        help="Threads that share work on a large array in the reference; 0 is one for each core.",
    )
    device = Knob(
        "WORKBENCH_DEVICE",
        default="",
        parse=str,
        help="The device that `gpu` runs on, such as `cuda:0` or `opencl`; empty is the best one here.",
    )
    cache = Knob(
        "WORKBENCH_CACHE",
        default="",
        parse=str,
        help="Folder for kept kernels and measured peaks; empty is `graph-workbench` in the user's "
        "cache folder.",
    )
    cache_bytes = Knob(
        "WORKBENCH_CACHE_BYTES",
        default=1 << 30,
        parse=count,
        help="Most bytes of kept kernels; the least recently used are evicted first. 0 is no limit.",
    )
    collective_seconds = Knob(
        "WORKBENCH_COLLECTIVE_SECONDS",
        default=600,
        parse=count,
        help="Most seconds that a replica of a program waits for the others; 0 is no limit.",
    )
    display = Knob(
        "DISPLAY", default="", parse=str, help="The X display that a browser can open on."
    )
    wayland_display = Knob(
        "WAYLAND_DISPLAY",
        default="",
        parse=str,
        help="The Wayland display that a browser can open on.",
    )

    # MIGraphX's own variables, for scripts that use them
    trace_eval = Knob(
        "MIGRAPHX_TRACE_EVAL",
        default=0,
        parse=count,
        help="Say what a run does: 1 names and times each instruction, 2 adds statistics and some "
        "elements, 3 all elements.",
    )
    trace_passes = Knob(
        "MIGRAPHX_TRACE_PASSES",
        default=False,
        parse=flag,
        help="Print each pass's name, and the program after it.",
    )
    trace_compile = Knob(
        "MIGRAPHX_TRACE_COMPILE",
        default=False,
        parse=flag,
        help="The same as `trace_passes`.",
    )
    time_passes = Knob(
        "MIGRAPHX_TIME_PASSES",
        default=False,
        parse=flag,
        help="Print how long each pass took.",
    )
    trace_matches = Knob(
        "MIGRAPHX_TRACE_MATCHES",
        default=0,
        parse=count,
        help="Print each rule that applies, with the instruction; 2 also prints near misses.",
    )
    trace_matches_for = Knob(
        "MIGRAPHX_TRACE_MATCHES_FOR",
        default="",
        parse=str,
        help="Print only rules whose name, file or pass contains this text; no other variable is needed.",
    )
    trace_quantization = Knob(
        "MIGRAPHX_TRACE_QUANTIZATION",
        default=False,
        parse=flag,
        help="Print each pass of a quantization, and the program after it.",
    )
    quantization_params = Knob(
        "MIGRAPHX_8BITS_QUANTIZATION_PARAMS",
        default=False,
        parse=flag,
        help="Print the scale of each captured argument when it is quantized to 8 bits.",
    )
    disable_passes = Knob(
        "MIGRAPHX_DISABLE_PASSES",
        default=(),
        parse=names,
        help="Passes that do nothing, separated by commas.",
    )
    disable_pointwise_fusion = Knob(
        "MIGRAPHX_DISABLE_POINTWISE_FUSION",
        default=False,
        parse=flag,
        help="`fuse_pointwise` does nothing.",
    )
    disable_reduce_fusion = Knob(
        "MIGRAPHX_DISABLE_REDUCE_FUSION",
        default=False,
        parse=flag,
        help="`fuse_reduce` does nothing.",
    )
    disable_schedule_pass = Knob(
        "MIGRAPHX_DISABLE_SCHEDULE_PASS",
        default=False,
        parse=flag,
        help="`schedule` does nothing.",
    )
    verify_enable_allclose = Knob(
        "MIGRAPHX_VERIFY_ENABLE_ALLCLOSE",
        default=False,
        parse=flag,
        help="`driver verify` also compares element by element, with --atol and --rtol.",
    )
    verify_dump_diff = Knob(
        "MIGRAPHX_VERIFY_DUMP_DIFF",
        default=False,
        parse=flag,
        help="`driver verify` prints both tensors if they differ, whatever their size.",
    )

    # PopART's own variables, for scripts that use them
    popart_dot_checks = Knob[tuple[str, ...] | None](
        "POPART_DOT_CHECKS",
        default=None,
        parse=lambda text: tuple(text.split(":")),
        help="Checkpoints that write graphs as DOT files, separated by colons, or `ALL`.",
    )
    popart_ir_dump = Knob(
        "POPART_IR_DUMP",
        default="",
        parse=str,
        help="File that each session writes its graphs to, as JSON.",
    )
    popart_cache_dir = Knob(
        "POPART_CACHE_DIR",
        default="",
        parse=str,
        help="PopART's folder of compiled models; recorded in `ir.options`, without effect.",
    )

    # onnxruntime's own variable, for scripts that use it
    ort_load_config_from_model = Knob(
        "ORT_LOAD_CONFIG_FROM_MODEL",
        default="",
        parse=str,
        help="`1` lets sessions without options take those that the model brings in its metadata.",
    )

    def __init__(self) -> None:
        self.assigned: dict[str, Any] = {}
        """Options set for the whole process."""

    @classmethod
    def all(cls) -> list[Knob[Any]]:
        """Every option, in the order of this file."""
        return [knob for knob in vars(cls).values() if isinstance(knob, Knob)]

    @contextmanager
    def scope(self, **values: object) -> Generator[None]:
        """Sets options inside a `with` block.

        Other threads do not see them, unless they run in a copy of this one's context.

        Args:
            **values: Options by name, e.g. `validate=True`.

        Raises:
            TypeError: There is no option of that name.
        """
        known = {knob.name for knob in self.all()}
        if unknown := sorted(set(values) - known):
            raise TypeError(f"no option {unknown[0]!r}; the options are {', '.join(sorted(known))}")
        token = _scope.set({**_scope.get(), **values})
        try:
            yield
        finally:
            _scope.reset(token)

    def table(self) -> str:
        """Every option as a Markdown table: name, variable, default, meaning."""
        rows = ["| option | environment variable | default | what it does |", "|---|---|---|---|"]
        rows += [f"| `{k.name}` | `{k.variable}` | `{k.default}` | {k.help} |" for k in self.all()]
        return "\n".join(rows)


def variables(prefix: str) -> dict[str, str]:
    """The environment variables whose names start with a prefix, sorted by name."""
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith(prefix)}


def suggest(variable: str, value: str) -> None:
    """Sets a variable that a library reads when it is loaded, unless it is already set."""
    os.environ.setdefault(variable, value)


knobs = Knobs()
"""The options, e.g. `knobs.validate`."""


def environment(**changes: str) -> dict[str, str]:
    """The variables that a child process gets: those of this one, with changes."""
    return os.environ | changes
