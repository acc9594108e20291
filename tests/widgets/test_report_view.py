"""ReportView without a browser: it opens on the culprit, looks into kernels, and inspects values."""

import json

import numpy as np
import pytest

from tests.numerics.compare.test_report import by_hand, inputs, network, row
from tests.widgets.views import overflowing, unpacked
from workbench.compiler.builds.build import compile
from workbench.numerics.compare.compare import compare
from workbench.numerics.compare.report import Report
from workbench.widgets import ReportView


@pytest.fixture(scope="module")
def healthy() -> Report:
    return compare(compile(network(), target="cpu"), inputs())


@pytest.fixture(scope="module")
def broken() -> Report:
    return overflowing()


def fused(view: ReportView) -> int:
    return next(k for k, n in view.table.nodes.items() if n.bodies and n.module == 0)


def inner(view: ReportView, id: int) -> list[int]:
    return [k for k, n in view.table.nodes.items() if n.module in view.table.nodes[id].bodies]


def test_it_opens_on_the_culprit_and_on_its_part(broken: Report):
    view = ReportView(broken)
    culprit = broken.culprits()[0]
    assert culprit.part is not None
    assert view.selected == culprit.id
    assert f"@{culprit.id}" in view.open_groups()
    assert str(culprit.part.id) in view.parts
    assert view.overlay["values"][str(culprit.part.id)] is None  # infinite
    said = view.parts[str(culprit.part.id)]["said"]
    assert said == [f"I{culprit.part.reason[1:]}."]
    assert f'data-id="{culprit.part.id}"' in view.to_svg()


def test_a_kernel_is_evaluated_inside_when_it_is_opened(healthy: Report):
    view = ReportView(healthy)
    assert (view.selected, view.parts) == (None, {})
    id = fused(view)
    view.expanded = [*view.open_groups(), f"@{id}"]
    computed = {str(p.id): p for p in healthy.parts([id])[id]}
    assert set(view.parts) == set(computed)
    assert {k: view.overlay["values"][k] for k in computed} == {
        k: p.local.error for k, p in computed.items()
    }
    assert {int(k) for k in computed} <= set(inner(view, id))
    rows = dict(view.parts[next(iter(computed))]["rows"])
    assert {"local RMS", "local bound", "cosine", "NaN", "operand 0"} <= set(rows)


def test_the_numbers_of_a_row_are_those_of_the_table(healthy: Report):
    view, row = ReportView(healthy), healthy.rows[-1]
    facts = unpacked(view.data)["facts"][str(row.id)]
    assert facts["said"] == [f"Within the tolerance of {healthy.tolerance:.3g}."]
    assert dict(facts["rows"])["max abs"] == f"{row.metrics.max_abs:.3g}"
    assert dict(facts["rows"])["NaN"] == "0 (expected 0)"


def test_a_value_is_inspected_below_the_graph(healthy: Report):
    view, row = ReportView(healthy), healthy.rows[-1]
    view.inspected = row.id
    found = healthy.inspect(row.id)
    assert np.array_equal(view.tensor.value, found.value)
    assert unpacked(view.values)["statement"] == found.statement
    assert view.at == ",".join(map(str, found.worst_index or ()))
    view.at = "1,1"
    again = ReportView(healthy, state=view.state)
    assert (again.inspected, again.at) == (row.id, "1,1")
    view.inspected = None
    assert (view.tensor, view.values, view.slice) == (None, b"", "")


def test_what_cannot_be_inspected_says_so(healthy: Report):
    view = ReportView(healthy)
    view.inspected = 999_999
    assert view.tensor is None
    assert "999999" in unpacked(view.values)["error"]


def test_a_report_without_sides_is_shown_all_the_same():
    report = by_hand(row(0, 0.5, 0.4))
    view = ReportView(report)
    assert not unpacked(view.data)["live"]
    kernels = [f"@{k}" for k, n in view.table.nodes.items() if n.bodies]
    view.expanded = kernels
    assert "rows only" not in view.to_html()


def test_its_page_has_the_parts_of_the_culprits(broken: Report):
    view = ReportView(broken, state="o=")
    part = broken.culprits()[0].part
    assert part is not None
    data = json.loads(view.to_html().partition('id="wb-data">')[2].partition("</script>")[0])
    facts, inner = unpacked(data["data"])["facts"], data["parts"][str(part.id)]
    assert part.reason in facts[str(broken.culprits()[0].id)]["said"][0]
    assert part.reason[1:] in inner["said"][0]


def test_a_view_whose_cell_ran_again_lets_go_of_the_report(healthy: Report):
    view = ReportView(healthy)
    view.inspected = healthy.rows[-1].id
    view.retire()
    assert (view.report, view.tensor) == (None, None)
