"""Reports: what is worst comes first, culprits are named, and a value can be looked at again."""

from collections.abc import Iterator
from itertools import pairwise
from math import inf

import matplotlib as mpl
import numpy as np
import pytest

from tests.numerics.compare.test_compare import network
from tests.numerics.metrics.test_tensor_difference import Tags
from workbench.compiler.builds.build import compile
from workbench.compiler.errors import GraphError, InputError, OperationError
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.run.reference import Interpreter
from workbench.numerics.compare.compare import compare
from workbench.numerics.compare.culprit import Cause, Culprit
from workbench.numerics.compare.report import NotCompared, Report, Row
from workbench.numerics.compare.report_plot import _spread
from workbench.numerics.metrics.metrics import Metrics, compare_arrays

mpl.use("agg")
EVIL = "<img src=x onerror=alert(1)>$\\frac"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the figures of a test."""
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def row(id: int, inherited: float, local: float, nan: int = 0, local_nan: int = 0) -> Row:
    """A row with these relative RMS errors and counts of NaN."""
    metrics = Metrics(inherited, inherited, inherited, inherited, 1 - inherited, nan, 0, 0, 0)
    own = Metrics(local, local, local, local, 1.0, local_nan, 0, 0, 0)
    return Row(id, f"@{id}", "mul", "float", f"@{id}", metrics, (EVIL,), own, 1e-6)


def by_hand(*rows: Row) -> Report:
    """A report of these rows on a small program, with a culprit for the first."""
    culprit = Culprit(rows[0].id, rows[0].name, "mul", Cause.KERNEL, 0.5, 1e-6, (EVIL,), EVIL)
    missing = NotCompared(99, "@99", "add", "no counterpart")
    return Report(network(), rows, 1e-3, [culprit], [missing])


def overflowing() -> Report:
    """The square of e^x in half: infinite for one element of three, from which softmax makes NaN."""
    program = Program("overflow")
    x = program.main.add_parameter("x", Shape("float", (1, 3)))
    with program.source("loud/Exp"):
        x = program.main.add("exp", x)
    with program.source("loud/Softmax"):
        program.main.add_return(program.main.add("softmax", x, axis=1))
    build = compile(program, target="ref", precision="fp16")
    return compare(build, {"x": np.array([[0, 1, 12]], np.float32)})


# Tables


def test_not_finite_is_the_worst_in_every_column():
    report = by_hand(row(0, 0.5, 0.4), row(1, 0.0, 0.0, nan=2), row(2, 1e-9, 1e-9))
    table = report.table()
    for column in ("relative rms", "max abs", "max rel", "rms"):
        assert table[column].idxmax() == 1
    assert table["cosine"].idxmin() == 1
    assert table.loc[1, "nan"] == 2
    assert report.overlay()[1] == inf
    assert report.overlay(local=True)[1] == 0


def test_the_worst_rows_are_ranked_by_their_own_error():
    report = by_hand(
        row(0, 0.5, 0.2), row(1, 0.9, 1e-9), row(2, 0.0, 0.0, nan=1), row(3, 0.1, 0.0, 1, local_nan=1),
        row(4, 0.3, 0.3),
    )  # fmt: skip
    assert list(report.worst().index) == [3, 2, 4, 0, 1]
    assert list(report.worst(2).index) == [3, 2]
    assert report.worst(0).empty


def test_a_finite_value_where_the_reference_is_not_is_wrong():
    found = compare_arrays(np.array([1.0, 2.0, np.inf]), np.array([np.nan, 2.0, np.inf]))
    assert (found.lost, found.nan, found.inf, found.is_sane, found.error) == (1, 0, 0, False, inf)
    assert compare_arrays(np.zeros(2), np.full(2, np.nan)).error == inf
    assert compare_arrays(np.full(2, np.nan), np.full(2, np.nan)).error == 0


def test_the_summary_counts_and_names_the_culprit():
    report = by_hand(row(0, 0.5, 0.5), row(1, 1e-9, 1e-9))
    assert report.counts == "2 values compared: 1 within 0.001, 1 beyond, 1 not compared"
    assert report.summary.startswith(f"{report.counts}; first culprit: @0 mul from ")
    none = Report(network(), [row(0, 0.5, 1e-9)], 1e-3)
    assert (
        none.summary
        == "1 value compared: 0 within 0.001, 1 beyond, 0 not compared; the first is @0 mul"
    )
    empty = Report(network(), [], 1e-3)
    assert empty.table().empty
    assert empty.summary == "0 values compared: 0 within 0.001, 0 beyond, 0 not compared"
    assert "No value was compared" in empty._repr_html_()


# Pictures


def test_the_page_opens_with_the_culprit_and_hostile_names_are_text():
    text = by_hand(row(0, 0.5, 0.5), row(1, 1e-9, 1e-9))._repr_html_()
    assert not [tag for tag, _ in Tags(text).tags if tag == "img"]
    assert text.index("@0 mul") < text.index("<table")
    assert "500,000 times" in text.replace("5e+05", "500,000")
    assert "(kernel)" in text


def test_the_plot_has_both_series_the_lines_and_numbers_that_do_not_overlap():
    rows = [row(k, 10.0 ** -(k % 7), 10.0 ** -(k % 5 + 3)) for k in range(320)]
    rows[100] = row(100, 0.0, 0.0, nan=1)
    report = by_hand(*rows)
    report._culprits += [
        Culprit(k, f"@{k}", "mul", Cause.KERNEL, 0.5, 1e-6, (EVIL,), EVIL)
        for k in (100, 101, 102, 103)
    ]
    ax = report.plot()
    ax.figure.canvas.draw()
    assert [len(line.get_xdata()) for line in ax.lines[:2]] == [320, 320]
    inherited = np.asarray(ax.lines[0].get_ydata())
    assert inherited.argmax() == 100  # not finite is at the top
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert {
        "inherited, as it ran",
        "of the kernel alone",
        "bound of its rounding",
        "tolerance 0.001",
    } <= {*labels}
    numbers = [t.get_bbox_patch().get_window_extent() for t in ax.texts if t.get_text().isdigit()]
    assert len(numbers) == 5
    ends = sorted((b.x0, b.x1) for b in numbers)
    assert all(left[1] < right[0] for left, right in pairwise(ends))
    assert ax.texts[-1].get_text().count("\n") == 4


def test_numbers_are_moved_as_little_as_needed():
    assert _spread([10.0, 50.0], 0, 100) == [10, 50]
    moved = _spread([99.0, 99.5, 100.0], 0, 100)
    assert np.diff(moved) == pytest.approx([3.5, 3.5])
    assert moved[-1] <= 100


def test_the_view_opens_on_the_culprit_with_a_log_scale():
    report = overflowing()
    view = report.view()
    assert view.selected == report.culprits()[0].id
    assert (view.overlay["scale"], view.overlay["tolerance"]) == ("magma", report.tolerance)
    assert view.overlay["values"][str(view.selected)] is None  # infinite, which JSON lacks
    assert "not finite" in view.to_svg()
    assert report.view(local=True).overlay["name"] == "local relative RMS"


# One value


def inputs() -> dict[str, np.ndarray]:
    """The input of the network."""
    return {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)}


def source_values(program: Program) -> dict[int, np.ndarray]:
    """The float64 values of a program by id."""
    found: dict[int, np.ndarray] = {}
    Interpreter(program, True).run(inputs(), hook=lambda i, v, _: found.update({i.id: np.array(v)}))
    return found


def test_a_value_is_found_by_all_its_names():
    program = network()
    build = compile(program, target="cpu")
    report = compare(build, inputs())
    last = report.rows[-1]
    wanted, run = source_values(program), build.values(inputs())
    found = [
        report.inspect(w) for w in (last, last.id, last.name, build.program.instruction(last.id))
    ]
    for one in found:
        assert np.array_equal(one.value, run[last.id])
        assert np.array_equal(one.reference, wanted[program.outputs[0].id])
        assert one.metrics.relative_rms == pytest.approx(last.metrics.relative_rms)
        assert one.worst_index is not None
    assert report.inspect(report.worst(1).index[0]).value.shape == (4, 8)


def test_a_node_inside_a_kernel_means_the_kernel():
    report = compare(compile(network(), target="cpu"), inputs())
    found = report.inspect("layer0")
    assert found.sources == ("layer0",)
    fused = [r for r in report.rows if "tanh" in r.kernel and r.sources == ("layer0",)]
    assert found.metrics.max_abs == fused[0].metrics.max_abs


def test_a_culprit_is_inspected_where_it_overflows():
    report = overflowing()
    found = report.inspect(report.culprits()[0])
    assert found.worst_index == (0, 2)
    assert found.value[0, 2] == np.inf
    assert found.reference[0, 2] == pytest.approx(np.exp(12))
    assert report.inspect("loud/Softmax").metrics.nan


def test_values_of_every_kind_of_reference():
    program = network()
    build = compile(program, target="cpu")
    values = source_values(program)
    returned = program.outputs[0].id
    references = [
        compile(program, target="ref"), network(), compile(network(), target="cpu"),
        {"layer1": values[program.outputs[0].inputs[0].id], "main:#output_0": values[returned]},
    ]  # fmt: skip
    for reference in references:
        report = compare(build, inputs(), reference)
        wanted = values[program.outputs[0].inputs[0].id]
        found = report.inspect("layer1")
        assert found.reference.dtype == np.float64
        assert found.reference == pytest.approx(wanted, abs=1e-12)


def test_what_the_reference_lacks_is_expected_in_float64():
    program = network()
    values = source_values(program)
    report = compare(
        compile(program, target="cpu"),
        inputs(),
        {"layer1": values[program.outputs[0].inputs[0].id]},
    )
    unmeasured = report.not_compared[0]
    assert unmeasured.reason == "no counterpart"
    found = report.inspect(unmeasured)
    assert found.metrics.relative_rms < 1e-6
    assert np.array_equal(found.reference, values[found_id(report, unmeasured.id)])


def found_id(report: Report, id: int) -> int:
    """The source's instruction that an instruction computes."""
    from workbench.numerics.compare.alignment import from_source

    assert report._sides is not None
    return from_source(report._sides.subject)[id][0]


def test_tuples_and_parts_are_inspected():
    program = Program("largest")
    x = program.main.add_parameter("x", Shape("float", (4, 8)))
    both = program.main.add("topk", x, k=3, axis=1)
    parts = [program.main.add("get_tuple_elem", both, index=k) for k in range(2)]
    program.main.add_return(*parts)
    report = compare(compile(program, target="cpu"), inputs())
    for one in report.rows:
        found = report.inspect(one)
        assert found.metrics.max_abs == one.metrics.max_abs == 0
        assert found.value.size == 12


def test_what_is_not_there_is_refused():
    report = compare(compile(network(), target="cpu"), inputs())
    with pytest.raises(GraphError, match=r"no tensor, node or module 'layer7'; did you mean"):
        report.inspect("layer7")
    with pytest.raises(InputError, match="named by a float"):
        report.inspect(1.5)
    with pytest.raises(OperationError, match=r"rows only; expected one that wb\.compare made"):
        by_hand(row(0, 0.5, 0.5)).inspect(0)
