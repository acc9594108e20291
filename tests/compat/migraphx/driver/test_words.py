"""The driver's command line: what is refused and how, what is said where, variables, documentation."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.migraphx.driver.conftest import Call
from workbench import cli
from workbench.compat.migraphx.driver import main
from workbench.compat.migraphx.driver.dimensions import by_name, dim, dims, relaxed_json
from workbench.compat.migraphx.driver.loading import named_passes
from workbench.compat.migraphx.driver.messages import UsageError
from workbench.compat.migraphx.driver.options import COMMANDS, parser_of
from workbench.compiler.ir.shape import Dim
from workbench.knobs import Knobs

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["raed"], "'raed' is not a valid command; commands are read, compile,"),
        (["--fp16", "read"], "command 'read' must be the first argument"),
        (["read"], "expected a model: a file, or --test"),
        (["read", "a.onnx", "b.onnx"], "expected one model, found a.onnx, b.onnx"),
        (["read", "--test", "a.onnx"], "--test is a model of its own"),
        (["read", "--test", "--pyhton"], "unknown option --pyhton; did you mean --python"),
        (["compile", "--test", "--fp61"], "did you mean --fp16"),
        (["read", "--test", "--batch", "0"], "expected a number of 1 or more, found '0'"),
        (["read", "--test", "--trim", "x"], "expected a number of 0 or more, found 'x'"),
        (["read", "--test", "--trim-size", "2"], "give --trim too"),
        (["read", "--test", "--batch"], "expected one argument"),
        (["op"], "expected the name of an operator, or --list"),
        (["onnx", "Relu"], "expected options only, found 'Relu'"),
        (["read", "--test", "--log-level", "loud"], "expected one of none/0, error/1"),
    ],
)
def test_what_means_nothing_is_refused(call: Call, words: list[str], says: str):
    found = call(*words)
    assert (found.code, found.out) == (2, "")
    last = found.err.splitlines()[-1]
    assert last.startswith("workbench driver: ")
    assert says in last


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["read", "missing.onnx"], "missing.onnx: no such file"),
        (["read", "--test", "--mlir"], "there is no MLIR"),
        (["read", "--test", "-o", "no/such/folder.mxr"], "there is no folder"),
        (["read", "--test", "--trim", "9"], "cannot trim 9 of 3 instructions"),
        (["roctx", "--test"], "`workbench driver perf`"),
        (["run", "--test", "--fill0", "q"], "no parameter is called 'q'"),
        (["run", "--test", "--load-arg", "@a", "missing.arg"], "missing.arg"),
        (["op", "poolin"], "did you mean pooling"),
    ],
)
def test_what_fails_is_one_message(call: Call, words: list[str], says: str):
    found = call(*words)
    assert found.code == 1
    assert says in found.err.splitlines()[-1]
    assert "Traceback" not in found.err


@pytest.mark.parametrize("suffix", [".onnx", ".pb", ".json", ".mxr"])
def test_a_damaged_file_is_one_message(call: Call, tmp_path: Path, suffix: str):
    file = tmp_path / f"damaged{suffix}"
    file.write_bytes(b"\x93\xff\x00damaged")
    found = call("read", file)
    assert found.code == 1
    assert "damaged" in found.err.splitlines()[-1]
    assert "Traceback" not in found.err


def test_progress_has_levels_and_files(call: Call, tmp_path: Path):
    file = tmp_path / "log.txt"
    words = ("compile", "--test", "--cpu", "--exhaustive-tune")
    quiet = call(*words, "--log-level", "none")
    assert quiet.err == ""
    warned = call(*words, "--log-level", "2", "--log-file", file)
    assert warned.err == file.read_text()
    assert "Compiling" not in warned.err
    assert "[WARNING]: --exhaustive-tune" in warned.err


def test_operators_are_listed_and_shown(call: Call):
    names = call("op", "--list").out.split()
    assert names == sorted(names)
    assert {"@literal", "add", "pooling"} <= set(names)
    assert json.loads(call("op", "-l", "--json").out) == names
    shown = call("op", "convert").out
    assert shown == 'convert: \n{\n    "target_type": 1\n}\n'
    assert json.loads(call("op", "pooling", "--json").out)["pooling"]["mode"] == 0
    assert "Conv" in call("onnx", "--list").out.split()
    assert "Conv2D" in call("tf", "-l").out.split()
    assert json.loads(call("tf", "--json").out) == call("tf").out.split()


def test_help_and_version(call: Call):
    assert all(f"    {name} " in call("--help").out for name in COMMANDS)
    assert call().out == call("-h").out
    assert re.match(r"MIGraphX Version: 2\.16\.0 \(workbench \S+\)\n", call("-v").out)
    assert "onnxruntime" in call("--ort-sha").out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code in (0, None)
    assert f"usage: workbench driver {command}" in capsys.readouterr().out


def test_every_option_is_documented():
    page = (DOCS / "driver.md").read_text(encoding="utf-8")
    flags = {f for c in COMMANDS for f in parser_of(c)._option_string_actions}
    assert not [f for f in sorted(flags - {"-h", "--help"}) if f"`{f}`" not in page]


def test_every_option_of_the_environment_is_documented():
    page = (DOCS / "options.md").read_text(encoding="utf-8")
    for line in Knobs().table().splitlines():
        assert line in page


# Dimensions and passes


def test_words_after_names():
    assert by_name("--x", ["@a", "1", "2", "@b", "3"]) == {"a": ["1", "2"], "b": ["3"]}
    for words, says in ((["1"], "expected a name first"), (["@a"], "expected a value after @a")):
        with pytest.raises(UsageError, match=says):
            by_name("--x", words)


def test_dimensions_are_read_without_quotes():
    assert dims("here", "[{min:1,max:64,optimals:[8,1,8]},3]") == [Dim(1, 64, (1, 8)), Dim(3, 3)]
    assert dim("here", "[{min:1, max:4}]") == Dim(1, 4)
    assert dim("here", "4") == Dim(4, 4)
    assert relaxed_json("here", '{a:"b c", d:true, e:null, f:-1.5}') == {
        "a": "b c", "d": True, "e": None, "f": -1.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "{min:1}",
        "{min:2,max:x}",
        "-1",
        "true",
        "[1,2]",
        "{min:1,max:2,most:3}",
        "[" * 9999,
    ],
)
def test_what_is_no_dimension_is_refused(text: str):
    with pytest.raises(UsageError, match="here: "):
        dim("here", text)


def test_passes_with_options():
    found = named_passes(["eliminate_dead_code,normalize_ops", "insert_pad{ops:[pooling]}"])
    assert [str(p) for p in found] == [
        "dead_code_elimination", "normalize_ops", "insert_pad(ops=('pooling',))",
    ]  # fmt: skip


# Variables


def test_variables_are_named(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MIGRAPHX_TIME_PASSES", "1")
    monkeypatch.setenv("MIGRAPHX_DISABLE_MLIR", "1")
    found = call("compile", "--test", "--ref")
    assert "MIGRAPHX_TIME_PASSES=1\\ \n" in found.err
    assert "Unused environment variable: MIGRAPHX_DISABLE_MLIR=1\n" in found.err
    assert re.search(r"^normalize_ops: [0-9.e-]+ms$", found.out, re.MULTILINE)


def test_passes_are_traced_and_disabled(call: Call, monkeypatch: pytest.MonkeyPatch, model: Path):
    monkeypatch.setenv("MIGRAPHX_TRACE_PASSES", "1")
    monkeypatch.setenv("MIGRAPHX_DISABLE_PASSES", "fuse_pointwise, normalize_ops")
    text = call("compile", model, "--cpu").out
    assert 'Pass: dead_code_elimination\nmodule: "main"' in text
    assert "Pass: fuse_pointwise" not in text
    assert "pointwise(" not in text
    monkeypatch.delenv("MIGRAPHX_DISABLE_PASSES")
    monkeypatch.setenv("MIGRAPHX_DISABLE_POINTWISE_FUSION", "1")
    assert "pointwise(" not in call("compile", model, "--cpu").out


def test_matches_are_traced(call: Call, monkeypatch: pytest.MonkeyPatch, model: Path):
    monkeypatch.setenv("MIGRAPHX_TRACE_MATCHES", "2")
    text = call("compile", model, "--cpu").out
    rule = re.search(r"^Matched by (\w+)\.(\w+)\n(\S+ = )", text, re.MULTILINE)
    assert rule is not None
    monkeypatch.delenv("MIGRAPHX_TRACE_MATCHES")
    monkeypatch.setenv("MIGRAPHX_TRACE_MATCHES_FOR", rule[2])
    only = set(re.findall(r"^Matched by \w+\.(\w+)", call("compile", model).out, re.MULTILINE))
    assert only == {rule[2]}


def test_runs_are_traced(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MIGRAPHX_TRACE_EVAL", "2")
    text = call("run", "--test", "--fill1", "a", "b").out
    assert "Run instruction: @2 = dot(a,b)" in text
    assert "Min value: 5, Max value: 5, Mean: 5, StdDev: 0" in text


def test_a_wrong_variable_is_one_message(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MIGRAPHX_TRACE_EVAL", "much")
    found = call("run", "--test")
    assert found.code == 1
    assert "MIGRAPHX_TRACE_EVAL='much'" in found.err


# The terminal


def test_the_workbench_command_has_the_driver(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        cli.main(["driver", "read", "--test", "--text"])
    assert end.value.code in (0, None)
    assert "dot(a,b)" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        cli.main(["driver", "read"])
    assert end.value.code == 2


def _process(*words: str) -> list[str]:
    return [sys.executable, "-c", "from workbench.cli import main; main()", "driver", *words]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals of POSIX")
def test_a_reader_that_has_enough_is_no_error():
    with subprocess.Popen(
        _process("op", "--list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        assert process.wait() in (0, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals of POSIX")
def test_an_interrupt_is_one_message():
    # A shell's background jobs ignore the signal: the handler that a terminal's have is set by hand.
    program = """
import signal, sys
from workbench.compat.migraphx.driver import commands, main
signal.signal(signal.SIGINT, signal.default_int_handler)
def hang(call): signal.raise_signal(signal.SIGINT)
commands.DO["read"] = hang
sys.exit(main(["read", "--test"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr.splitlines()[-1] == "workbench driver: interrupted"
