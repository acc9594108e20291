"""The driver's options for argparse: MIGraphX's, in its groups."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

from workbench.compat.migraphx.driver.messages import UsageError

COMMANDS = {
    "read": "Load a model and print it.",
    "compile": "Compile a model and print the compiled program.",
    "run": "Compile a model, run it once on generated inputs, and print the compiled program.",
    "time": "Compile a model and time whole runs.",
    "perf": "Compile a model, and report how long each instruction takes.",
    "verify": "Run a model on a target and on the reference, and compare.",
    "params": "Print the parameters of a model and their shapes.",
    "op": "Print an operator's attributes with their defaults, or list all operators.",
    "onnx": "List the ONNX operators that can be read.",
    "tf": "List the TensorFlow operators that can be read.",
    "roctx": "Mark the instructions of a run for rocprof.",
}

MODEL_COMMANDS = ("read", "compile", "run", "time", "perf", "verify", "params", "roctx")
COMPILING = ("compile", "run", "time", "perf", "verify", "roctx")


class _Parser(argparse.ArgumentParser):
    """A parser that raises an exception for an error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog.split()[-1]}: {message}")


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of one command's options; it leaves the model over."""
    takes = {"op": " [<operator>]", "onnx": "", "tf": ""}.get(command, " <file>")
    parser = _Parser(
        prog=f"workbench driver {command}",
        usage=f"workbench driver {command}{takes} <options>",
        description=COMMANDS[command],
        allow_abbrev=False,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    if command in MODEL_COMMANDS:
        _loading(parser)
        _output(parser, command)
    if command in COMPILING:
        _compiling(parser)
    _own(parser, command)
    return parser


def parse(command: str, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of a command, and the remaining words: the model or the operator.

    Raises:
        UsageError: An option is unknown (the nearest one is suggested), or its value is invalid.
    """
    parser = parser_of(command)
    options, rest = parser.parse_known_args(list(arguments))
    known = list(parser._option_string_actions)  # pyright: ignore[reportPrivateUsage]
    for word in rest:
        if word.startswith("-") and word != "-":
            near = difflib.get_close_matches(word.split("=")[0], known, 2, 0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UsageError(f"{command}: unknown option {word}{hint}")
    return options, rest


def _switch(group: Any, *flags: str, help: str, **more: Any) -> None:
    group.add_argument(*flags, action="store_true", help=help, **more)


def _choice(group: Any, *flags: str, dest: str, value: Any, help: str) -> None:
    group.add_argument(*flags, dest=dest, action="store_const", const=value, help=help)


def _words(group: Any, *flags: str, metavar: str, help: str) -> None:
    """An option that takes all words up to the next option."""
    group.add_argument(*flags, action="extend", nargs="+", default=[], metavar=metavar, help=help)


def _loading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("loading")
    for kind, what in (
        ("onnx", "ONNX"),
        ("tf", "TensorFlow"),
        ("migraphx", "MIGraphX (.mxr)"),
        ("migraphx-json", "MIGraphX JSON"),
    ):
        value = kind.removeprefix("migraphx-")
        _choice(group, f"--{kind}", dest="file_type", value=value, help=f"Load as {what}.")
    _switch(group, "--test", help="Use a single matrix product instead of a file.")
    group.add_argument(
        "--batch",
        type=positive,
        default=1,
        help="The length of dimensions that the model leaves open: when it is read, or for the\n"
        "inputs of a program with dynamic dimensions. 1 by default.",
    )
    group.set_defaults(nhwc=True)
    _choice(group, "--nhwc", dest="nhwc", value=True, help="TensorFlow's images are NHWC.")
    _choice(group, "--nchw", dest="nhwc", value=False, help="TensorFlow's images are NCHW.")
    _switch(group, "--skip-unknown-operators", help="Keep operators that are not known.")
    _switch(group, "--debug-symbols", help="Name the model's nodes behind each instruction.")
    _dimensions(group)
    _changing(parser.add_argument_group("changing what was loaded"))


def _dimensions(group: Any) -> None:
    _words(group, "--input-dim", metavar="W", help='Lengths of a parameter: "@name" 1 3 224 224.')
    _words(
        group,
        "--dim-param",
        metavar="W",
        help='A symbolic dimension: "@name" 4, or "@name" "{min:1, max:4, optimals:[2]}".',
    )
    _words(
        group,
        "--dyn-input-dim",
        metavar="W",
        help='Ranges of a parameter: "@name" "[{min:1, max:4}, 3, 224, 224]".',
    )
    group.add_argument(
        "--default-dyn-dim",
        metavar="DIM",
        help='The range of dimensions that the model leaves open: "{min:1, max:4}".',
    )
    _words(group, "--output-names", metavar="NAME", help="TensorFlow nodes to return.")


def _changing(group: Any) -> None:
    group.add_argument("--trim", "-t", type=count, default=0, help="Drop that many from the end.")
    group.add_argument(
        "--trim-size", "-s", type=count, default=0, help="Keep only that many before those."
    )
    _switch(group, "--optimize", "-O", help="Simplify what was read.")
    _switch(group, "--mlir", help="Not here: there is no MLIR to hand the program to.")
    _switch(group, "--replace-literals", help="Make every literal a parameter.")
    group.add_argument(
        "--apply-pass",
        "-p",
        action="append",
        default=[],
        metavar="NAME",
        help="Run a pass on what was read; more with commas, or by giving the option again.\n"
        'Options of a pass in braces: "fuse_pointwise{enable_multi_output:true}".',
    )
    _switch(group, "--strip-context", help="Take a compiled program for one that is not.")


def _output(parser: argparse.ArgumentParser, command: str) -> None:
    group = parser.add_argument_group("output")
    for flags, value, what in (
        (("--graphviz", "-g"), "graphviz", "Graphviz's language"),
        (("--cpp",), "cpp", "C++"),
        (("--python", "--py"), "py", "Python"),
        (("--text",), "text", "the text form"),
        (("--binary",), "binary", "the binary form (.mxr)"),
        (("--netron",), "netron", "the JSON form of ONNX, to open in Netron"),
    ):
        _choice(group, *flags, dest="output_type", value=value, help=f"Print in {what}.")
    reports = command not in {"read", "compile"}
    what = "Print the report as JSON." if reports else "Print the program as JSON."
    _switch(group, "--json", help=what)
    _switch(group, "--brief", help="Leave details out of the graph.")
    group.add_argument("--output", "-o", metavar="FILE", help="Write to a file (.mxr by default).")


def _compiling(parser: argparse.ArgumentParser) -> None:
    inputs = parser.add_argument_group("inputs")
    _words(inputs, "--fill0", metavar="NAME", help="Parameters that are all 0.")
    _words(inputs, "--fill1", metavar="NAME", help="Parameters that are all 1.")
    _words(inputs, "--load-arg", metavar="W", help='A parameter from a file: "@name" argument.mxr.')
    group = parser.add_argument_group("compiling")
    group.set_defaults(target=None)
    for name in ("gpu", "cpu", "ref"):
        _choice(group, f"--{name}", dest="target", value=name, help=f"Compile for {name}.")
    _switch(
        group,
        "--enable-offload-copy",
        help="Copy inputs to the device and results back in each run.",
    )
    _switch(group, "--disable-fast-math", help="Leave out rewrites that only come close.")
    _switch(group, "--exhaustive-tune", help="Try everything to find fast kernels.")
    _switch(
        group,
        "--trusted-kernels",
        help="Run the machine code that a compiled file holds, where it fits the device. By default\n"
        "kernels are compiled: a file of somebody else's could hold any.",
    )
    for name in ("fp16", "bf16", "int8", "fp8"):
        _switch(group, f"--{name}", help=f"Quantize to {name}.")
    _switch(group, "--int4-weights", help="Quantize weights to int4.")


def _own(parser: argparse.ArgumentParser, command: str) -> None:
    group = parser.add_argument_group(command)
    if command in {"time", "perf"}:
        group.add_argument(
            "--iterations", "-n", type=positive, default=100, help="Runs to time; 100 by default."
        )
    if command == "perf":
        _switch(group, "--detailed", "-d", help="Tell types and shapes apart in the summary.")
    if command == "verify":
        _verifying(group)
    if command in {"op", "onnx", "tf"}:
        _switch(group, "--list", "-l", help="List all operators.")
        _switch(group, "--json", help="Print JSON.")


def _verifying(group: Any) -> None:
    group.add_argument("--rms-tol", type=float, help="Most that the RMS error may be.")
    group.add_argument("--atol", type=float, help="Most that an element may differ.")
    group.add_argument("--rtol", type=float, help="The same, relative to the reference.")
    _switch(group, "--per-instruction", "-i", help="Verify each instruction on its own.")
    _switch(group, "--reduce", "-r", help="Verify ever shorter programs.")
    _switch(group, "--bisect", "-b", help="Search the first instruction that fails.")
    _switch(group, "--ref-use-double", help="Compute the reference in double precision.")
    group.add_argument("--compiled-model", "-c", metavar="FILE", help="Verify this compiled model.")


def positive(text: str) -> int:
    """A number of 1 or more.

    Raises:
        ArgumentTypeError: It is something else.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, found {text!r}")
    return int(text)


def count(text: str) -> int:
    """A number of 0 or more.

    Raises:
        ArgumentTypeError: It is something else.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, found {text!r}")
    return int(text)
