"""Messages about a kernel that does not compile, from any compiler."""

import pytest

from workbench.gpu.devices.messages import compile_error, first_error, numbered

SOURCE = "\n".join(f"line {k};" for k in range(1, 21))


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("k.hip:4:86: error: use of undeclared identifier 'vv'\nk.hip:9:1: error: more", 4),
        ("k.hip:3:1: warning: hm\nk.hip:12:5: fatal error: no", 12),
        ('k.cu(7): warning #177-D: unused\nk.cu(36): error: identifier "q" is undefined', 36),
        ("k.cu(8): catastrophic error: out of it", 8),
        ("error: /some/where/x.cl:5:3: use of undeclared identifier 'q'", 5),
        ("linking failed", 0),
        ("", 0),
    ],
)
def test_the_line_of_the_first_error_is_found(log, line):
    assert first_error(log) == line


def test_an_error_has_the_log_and_the_lines_around():
    said = str(compile_error("hiprtc for gfx90a", "k", SOURCE, "k.hip:10:1: error: no\n"))
    assert said.startswith(
        "kernel k does not compile with hiprtc for gfx90a:\nk.hip:10:1: error: no"
    )
    assert "> 10 | line 10;" in said
    assert "   6 | line 6;" in said
    assert "line 5;" not in said
    assert "line 15;" not in said


def test_a_long_log_is_cut_and_an_empty_one_said():
    assert "… and 60 more lines" in str(compile_error("c", "k", SOURCE, "x\n" * 100))
    assert "the compiler wrote no log" in str(compile_error("c", "k", SOURCE, ""))


def test_lines_at_both_ends_of_a_source_are_shown():
    assert numbered(SOURCE, 1).splitlines()[0] == "> 1 | line 1;"
    assert numbered(SOURCE, 20).splitlines()[-1] == "> 20 | line 20;"
    assert numbered(SOURCE, 99) == ""
