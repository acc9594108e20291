"""KernelView in Chromium: kernels sorted and chosen, their texts read, searched and folded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Shown
from tests.widgets.kernels import MACHINE, row, rows
from workbench.compiler.report.tuning import Problem
from workbench.widgets import KernelView

pytestmark = pytest.mark.browser
Show = Callable[..., Shown]
CODE = ".wb-codeline"


def opened(show: Show, given: list[dict[str, Any]] | None = None, **options: Any) -> Shown:
    view = KernelView(rows() if given is None else given, title="block → cpu")
    return show(view, wait=".wb-tableau", **options)


@pytest.fixture
def shown(show: Show) -> Shown:
    return opened(show)


def cells(shown: Shown, column: str) -> list[str]:
    return shown.page.locator(f"td.wb-k-{column}").all_inner_texts()


def test_the_slowest_kernel_is_shown_first(shown: Shown, pictures: Path):
    chosen = shown.page.locator("tr.wb-chosen")
    assert "reduce_sum" in chosen.inner_text()
    assert chosen.get_attribute("aria-selected") == "true"
    assert "KERNEL(256) kernel_1" in shown.page.locator(CODE).first.inner_text()
    facts = shown.page.locator(".wb-facts").inner_text()
    for said in (
        "1.25 ms",
        "16 registers",
        "1.02 kB shared",
        "50 % of its work items",
        "/layer1/Node",
    ):
        assert said in facts
    shown.page.screenshot(path=pictures / "kernels-light.png")


def test_dark(show: Show, pictures: Path):
    shown = opened(show, dark=True)
    shown.page.get_by_role("tab", name="Machine code").click()
    shown.page.screenshot(path=pictures / "kernels-dark.png")
    assert shown.page.locator(".wb-root.wb-dark").count() == 1


def test_a_narrow_view_puts_the_code_below(show: Show):
    shown = opened(show, width=600)
    table = shown.page.locator(".wb-tableau").bounding_box()
    code = shown.page.locator(".wb-code").bounding_box()
    assert table
    assert code
    assert code["y"] >= table["y"] + table["height"]


def test_a_click_selects_the_instruction(shown: Shown):
    shown.page.locator('tr[data-kernel="0"]').click()
    assert (shown.trait("kernel"), shown.trait("selected")) == (0, 7)
    assert "add · relu" in shown.page.locator(".wb-facts").inner_text()


def test_a_selection_from_outside_shows_the_kernel_that_a_part_is_in(shown: Shown):
    shown.page.evaluate("() => window.__wbModel.set('selected', 21)")
    assert "add · relu" in shown.page.locator("tr.wb-chosen").inner_text()
    assert shown.trait("selected") == 21


def test_the_table_is_walked_with_the_keyboard(shown: Shown):
    shown.page.locator("tr.wb-chosen").focus()
    shown.page.keyboard.press("ArrowDown")
    assert shown.trait("kernel") == 2
    shown.page.keyboard.press("Home")
    assert shown.trait("kernel") == 0
    shown.page.keyboard.press("End")
    assert shown.trait("kernel") == 3
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".wb-code").evaluate("e => e === document.activeElement")


def test_columns_sort(shown: Shown):
    assert cells(shown, "index") == ["1", "2", "3", "4"]
    shown.page.get_by_role("button", name="Median time; sort").click()
    assert cells(shown, "ms") == ["1.25", "0.5", "0.2", "0.05"]
    head = shown.page.locator("th.wb-k-ms")
    assert head.get_attribute("aria-sort") == "descending"
    shown.page.get_by_role("button", name="Median time; sort").click()
    assert cells(shown, "ms") == ["0.05", "0.2", "0.5", "1.25"]


def test_a_filter_keeps_what_has_the_words(shown: Shown):
    shown.page.get_by_label("Filter kernels").fill("layer0")
    assert cells(shown, "index") == ["1"]
    shown.page.get_by_label("Filter kernels").fill("nothing has this")
    assert "No kernel has these words" in shown.page.locator("tbody").inner_text()
    shown.page.keyboard.press("Escape")
    assert len(cells(shown, "index")) == 4


def test_unknown_numbers_have_no_column(show: Show):
    shown = opened(show, [row(0, 3, "add")])
    assert shown.page.locator("th").count() == 4


def test_the_tabs_show_the_texts(shown: Shown):
    for tab, text in (
        ("Module", "@9 = reduce_sum"),
        ("Machine code", "vmulss"),
        ("Log", "nothing"),
    ):
        shown.page.get_by_role("tab", name=tab).click()
        assert text in shown.page.locator(".wb-code").inner_text()
    shown.page.keyboard.press("ArrowRight")
    assert shown.trait("tab") == "source"


def test_a_search_that_was_made_has_a_tab_of_its_own(show: Show, shown: Shown, pictures: Path):
    assert shown.page.get_by_role("tab", name="Search").count() == 0
    seconds = {"64 × 64, 3 stages": 2.5e-6, "128 × 64, 2 stages": 2e-6, "32 × 32": 4e-6}
    told = Problem("dot half 64x64x64", seconds, "128 × 64, 2 stages").text()
    page = opened(show, [row(0, 3, "dot", search=told), row(1, 4, "add")]).page
    page.get_by_role("tab", name="Search").click()
    assert "1.25 times as fast" in page.locator(".wb-code").inner_text()
    page.screenshot(path=pictures / "kernels-search.png")
    page.locator("[data-kernel='1']").click()
    assert "Nothing was measured" in page.locator(".wb-code").inner_text()


def test_the_prologue_is_folded_and_lines_keep_their_numbers(shown: Shown):
    first = shown.page.locator(CODE).first
    assert first.get_attribute("data-n") == "3"
    shown.page.locator(".wb-fold").click()
    assert first.get_attribute("data-n") == "1"
    assert first.inner_text().startswith("#define")


def test_words_are_coloured(shown: Shown):
    assert shown.page.locator(".wb-c-keyword").first.inner_text() == "const"
    assert "// one element each" in shown.page.locator(".wb-c-comment").all_inner_texts()
    assert "2.5f" in shown.page.locator(".wb-c-number").all_inner_texts()


def test_lines_are_found_also_in_the_prologue(shown: Shown):
    shown.page.locator(".wb-code").focus()
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("i32")
    assert "1 of 2 lines" in shown.page.locator(".wb-tools").inner_text()
    assert "typedef" in shown.page.locator(".wb-codeline.wb-here").inner_text()
    shown.page.keyboard.press("Enter")
    assert "get_global_id" in shown.page.locator(".wb-codeline.wb-here").inner_text()


def test_a_long_text_comes_in_parts(show: Show):
    long = "\n".join(f"    {k}: nop" for k in range(4000))
    shown = opened(show, [row(0, 3, "add", assembly=lambda: long)])
    shown.page.get_by_role("tab", name="Machine code").click()
    assert shown.page.locator(CODE).count() == 1500
    shown.page.get_by_label("Find in this text").fill("3900: nop")
    assert shown.page.locator(".wb-codeline.wb-here").get_attribute("data-n") == "3901"


def test_a_text_is_copied_without_its_numbers(shown: Shown):
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.page.get_by_role("tab", name="Machine code").click()
    shown.page.get_by_role("button", name="Copy this text").click()
    shown.page.get_by_role("status").filter(has_text="Copied").wait_for(state="attached")
    copied = shown.page.evaluate("() => navigator.clipboard.readText()")
    assert copied == MACHINE.format(name="kernel_1")


def test_hostile_names_are_only_ever_text(shown: Shown):
    shown.page.locator('tr[data-kernel="3"]').click()
    assert "<script>" in shown.page.locator(".wb-facts").inner_text()
    assert shown.page.locator(".wb-root script, .wb-root b").count() == 0


def test_a_program_without_kernels_says_so(show: Show):
    shown = opened(show, [])
    assert "launches no kernel" in shown.page.locator("tbody").inner_text()


def test_the_live_region_says_which_kernel(shown: Shown):
    shown.page.locator('tr[data-kernel="0"]').click()
    assert "Kernel 1 of 4" in (shown.page.get_by_role("status").text_content() or "")
