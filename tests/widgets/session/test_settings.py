"""The settings of a session: what they compile with, what they refuse, and the code that says the same."""

import pytest

import workbench as wb
from tests.widgets.networks import residual
from workbench.compiler.errors import OperationError
from workbench.widgets.session.settings import Settings, switches


def compiled_by_code(settings: Settings):
    """The build that the settings' own code makes of a program."""
    names = {"wb": wb, "program": residual(2)}
    exec(settings.compile_code(), names)
    return names["build"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"target": "cpu"},
        {"target": "cpu", "precision": "fp16"},
        {"target": "cpu", "off": ["fuse_pointwise", "simplify_algebra"]},
        {"target": "cpu", "order": [*range(12, -1, -1)]},
        {"target": "cpu", "order": [*range(1, 13), 0], "off": ["fuse_reduce"], "precision": "bf16"},
    ],
)
def test_code_and_settings_compile_to_the_same_program(given: dict[str, object]):
    settings = Settings.of(given)
    direct = wb.compile(residual(2), **settings.arguments())
    assert str(compiled_by_code(settings).program) == str(direct.program)
    assert [s.name for s in compiled_by_code(settings).recording] == [
        s.name for s in direct.recording
    ]


def test_a_pass_that_is_off_does_not_run():
    settings = Settings.of({"target": "cpu", "off": ["fuse_pointwise"]})
    ran = {s.name for s in wb.compile(residual(2), **settings.arguments()).recording}
    assert "fuse_pointwise" not in ran
    listed = [p for e in switches(settings.chosen().pipeline(), settings.off) for p in e["passes"]]
    assert [p["name"] for p in listed if not p["on"]] == ["fuse_pointwise"]
    assert {p["name"] for p in listed} >= {name.partition("(")[0] for name in ran}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"taget": "cpu"}, "unknown setting 'taget'; expected target, device"),
        ({"target": "tpu"}, "unknown target 'tpu'"),
        ({"target": 3}, "setting 'target': expected str; found 3"),
        ({"seed": -1}, "setting 'seed': expected int; found -1"),
        ({"seed": True}, "setting 'seed': expected int; found True"),
        ({"off": "cse"}, "setting 'off': expected names; found 'cse'"),
        ({"off": ["no_such_pass"]}, "'no_such_pass' cannot be left out"),
        ({"target": "cpu", "order": [0, 0]}, "order .* expected each of 0 to 12 once"),
        ({"precision": "fp8"}, "unknown precision 'fp8'"),
    ],
)
def test_impossible_settings_are_refused_with_what_is_possible(given, said: str):
    with pytest.raises(OperationError, match=said):
        Settings.of(given)


def test_settings_survive_the_way_to_the_browser_and_back():
    settings = Settings.of({"target": "cpu", "off": ["fuse_reduce"], "seed": 3, "inputs": "x.npz"})
    assert Settings.of(settings.as_dict()) == settings
