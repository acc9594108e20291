"""The driver's command line: dispatch to a command, messages around it, and one message for an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from workbench.compat.migraphx.driver.messages import Messages, UsageError
from workbench.compat.migraphx.driver.options import COMMANDS, parse
from workbench.compiler.errors import EvaluationError, WorkbenchError
from workbench.knobs import Knobs, OptionError, variables

PROGRAM = "workbench driver"
_GIVE_INPUTS = "; inputs that were not given are random: see --fill0, --fill1 and --load-arg"
FAILED, MISUSED, INTERRUPTED = 1, 2, 130


def version() -> str:
    """The version of MIGraphX that the driver follows, and ours."""
    from workbench import __version__  # noqa: PLC0415
    from workbench.compiler.files.mxr.writing import MIGRAPHX_VERSION  # noqa: PLC0415

    return f"MIGraphX Version: {MIGRAPHX_VERSION} (workbench {__version__})"


def main(arguments: Sequence[str]) -> int:
    """Run the driver.

    Returns:
        0; 1 if something failed or differs; 2 if the command line is invalid; 130 if it was
        interrupted.
    """
    messages = Messages()
    try:
        words, messages = _messages(list(arguments))
        code = _run(words, messages)
        sys.stdout.flush()
        return code
    except UsageError as error:
        messages.error(f"{PROGRAM}: {error}")
        return MISUSED
    except (WorkbenchError, OptionError, OSError) as error:
        return _failed(error, messages)
    except MemoryError as error:
        messages.error(
            f"{PROGRAM}: not enough memory: {error or 'the model is too large for this machine'}"
        )
        return FAILED
    except KeyboardInterrupt:
        messages.error(f"{PROGRAM}: interrupted")
        return INTERRUPTED


def _failed(error: Exception, messages: Messages) -> int:
    if isinstance(error, BrokenPipeError):  # the reader closed the pipe; write nothing more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    hint = _GIVE_INPUTS if isinstance(error, EvaluationError) else ""
    messages.error(f"{PROGRAM}: {error}{hint}")
    return FAILED


def _messages(words: list[str]) -> tuple[list[str], Messages]:
    """The messages that the options set, at any position, and the words without these options."""
    rest: list[str] = []
    level, files, taking = "info", list[str](), ""
    for word in words:
        if word in {"--log-level", "--log-file"}:
            taking = word
        elif not taking or word.startswith("-"):
            rest.append(word)
            taking = ""
        elif taking == "--log-level":
            level, taking = word, ""
        else:
            files.append(word)
    return rest, Messages(level, files)


def _run(words: list[str], messages: Messages) -> int:
    command = words[0] if words else "--help"
    if command in {"-h", "--help"}:
        sys.stdout.write(_help())
    elif command in {"-v", "--version"}:
        sys.stdout.write(version() + "\n")
    elif command == "--ort-sha":
        sys.stdout.write(_onnxruntime() + "\n")
    elif command not in COMMANDS:
        raise UsageError(_unknown(words))
    else:
        return _command(command, words[1:], messages)
    return 0


def _command(command: str, words: list[str], messages: Messages) -> int:
    from workbench.compat.migraphx.driver.commands import DO, Call  # noqa: PLC0415

    options, rest = parse(command, words)
    line = f"{PROGRAM} {' '.join([command, *words])}"
    messages.info(f"Running [ {version()} ]: {line}")
    code = DO[command](Call(options, rest, messages))
    _say_variables(messages)
    messages.info(f"[ {version()} ] Complete: {line}")
    return code


def _say_variables(messages: Messages) -> None:
    """Report MIGraphX's variables that are set: those that were read, and those that have no effect."""
    known = {knob.variable for knob in Knobs.all()}
    for name, value in variables("MIGRAPHX").items():
        if name in known:
            messages.info(f"{name}={value}\\ ")
        else:
            messages.warn(f"Unused environment variable: {name}={value}")


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"    {name:<{width}}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} <command> <options>",
            "",
            "COMMANDS:",
            *lines,
            "",
            "OPTIONS:",
            "    -h, --help             This, or after a command its options.",
            "    -v, --version          The version.",
            "    --ort-sha              The version of onnxruntime that is there to compare with.",
            "    --log-level LEVEL      none/0, error/1, warn/2, info/3 (the default), debug/4, trace/5.",
            "    --log-file FILE ...    Files that progress and warnings are added to.",
            "",
        ]
    )


def _unknown(words: Sequence[str]) -> str:
    later = next((w for w in words if w in COMMANDS), None)
    if later is not None:
        return f"command {later!r} must be the first argument: {PROGRAM} {later} <options>"
    return f"{words[0]!r} is not a valid command; commands are {', '.join(COMMANDS)}"


def _onnxruntime() -> str:
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415
    from importlib.metadata import version as version_of  # noqa: PLC0415

    try:
        return f"onnxruntime {version_of('onnxruntime')}"
    except PackageNotFoundError:
        return "onnxruntime is not installed"
