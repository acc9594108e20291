"""No view breaks a rule of axe-core, on light and on dark pages, nor does what opens over it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.browser.conftest import Shown
from tests.widgets.views import found, made
from workbench.widgets.base_view import BaseView

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[1] / "js/node_modules/axe-core/axe.min.js"
BROKEN = """async () => (await axe.run({ resultTypes: ["violations"] })).violations.flatMap(
  ({ id, nodes }) => nodes.map(({ html, any }) => `${id}: ${html} ${any.map((a) => a.message)}`))"""


@cache
def rules() -> str:
    assert AXE.exists(), f"make tests/js/node_modules/.package-lock.json installs {AXE}"
    return AXE.read_text(encoding="utf-8")


def broken(shown: Shown) -> list[str]:
    return shown.page.evaluate(BROKEN)


@pytest.mark.parametrize("view", found(), ids=lambda view: view.__name__)
def test_a_view_breaks_no_rule(show: Callable[..., Shown], view: type[BaseView]):
    shown = show(made(view), wait=".wb-root")
    shown.page.evaluate(rules())
    assert broken(shown) == []
    shown.page.emulate_media(color_scheme="dark")
    assert broken(shown) == []
    shown.page.locator(".wb-root").first.get_by_role("button", name="keys").first.click()
    shown.page.locator("dialog[open]").wait_for()
    assert broken(shown) == []
