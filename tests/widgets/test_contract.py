"""Every view keeps the contract of views: a static form, a state, no network, names as text."""

import base64
import hashlib
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import pytest
import traitlets

from tests.widgets.networks import HOSTILE
from tests.widgets.views import found, made
from workbench.knobs import knobs
from workbench.widgets.base_view import BaseView
from workbench.widgets.state import read_state, write_state

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = "svg title desc style defs pattern path rect circle text tspan g line marker polygon"
WRITTEN = "div table caption thead tbody tr th td details summary pre p"
VALUES: dict[str, Any] = {
    "camera": "1.0,-2.5,0.500",
    "edit": 1,
    "expanded": ["a b", "c|d&e=%7C"],
    "query": 'op:relu -"a|b" &=%',
    "only": [1, 2, 3, 9],
    "hidden": [2],
    "bookmarks": [[1, None, "a|b=&%"], [None, 2, ""]],
    "slice": "0,:,3,:",
    "at": "0,1,3,2",
}
RUBBISH = [
    "zz=1", "s=abc", "s=", "s=1=2", "s=99999999999999999999", "k=1e3", "n=0x1", "e=١", "t=pink",
    "i=1-", "i=a", "h=1,,2", "h=-1", "i=0-999999999", "c=rubbish", "c=nan,1,1",
    "x=1:2", "x=,", "x=1,-1", "y=:", "y=1.5", "y=1,", "v=x",
    "&&&", "x", "%ff=1", "=", "s=1;t=dark", HOSTILE,
]  # fmt: skip
AWAY = ["k=999999", "n=999999", "s=999999", "e=999999", "k=-5", "n=-5", "o=nothing|like|it",
        "x=9,9,:,:", "x=:", "x=:,:,:,:", "y=9,9,9,9", "y=1", "x=0,0,:,:&y=1,1,1,1", "v=999999",
        "l=image"]  # fmt: skip

views = pytest.mark.parametrize("view", found(), ids=lambda view: view.__name__)


class Tags(HTMLParser):
    """The elements of a page, the names of their attributes, and their text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def static(view: Any) -> tuple[str, str, dict[str, Any]]:
    """The MIME type, the static form and its metadata."""
    data, metadata = view._repr_mimebundle_()
    kind = next(k for k in ("image/svg+xml", "text/html") if k in data)
    assert data["text/plain"] == view.summary()
    return kind, data[kind], metadata


def test_there_are_views():
    assert {view.__name__ for view in found()} >= {
        "GraphView",
        "KernelView",
        "PassExplorer",
        "ReportView",
        "TensorView",
    }


@views
def test_it_has_a_static_form_that_is_told_in_words_too(view: type[BaseView]):
    shown = made(view)
    kind, form, metadata = static(shown)
    if kind == "text/html":
        parts = Tags(form)
        assert "table" in parts.tags
        assert shown.summary() in parts.text
        return
    root = ET.fromstring(form)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title")
    assert metadata[kind]["alt"] == shown.summary()


@views
def test_without_widgets_the_static_form_stays(view: type[BaseView]):
    with knobs.scope(static=True):
        data, _ = made(view)._repr_mimebundle_()
    assert len(data) == 2
    assert "text/plain" in data


@views
def test_hostile_names_are_only_text_in_the_static_form(view: type[BaseView]):
    kind, form, _ = static(made(view, unfriendly=True))
    if kind == "text/html":
        parts = Tags(form)
        tags, names, text = parts.tags, [name for name, _ in parts.attributes], parts.text
    else:
        elements = list(ET.fromstring(form).iter())
        tags = [e.tag.removeprefix(SVG) for e in elements]
        names = [name for e in elements for name in e.keys()]  # noqa: SIM118
        text = "".join(ET.fromstring(form).itertext())
    assert set(tags) <= {*DRAWN.split(), *WRITTEN.split()}
    assert not [name for name in names if name.startswith("on") or name in {"src", "href"}]
    assert "onerror=alert(1)" in text


@views
@pytest.mark.parametrize("unfriendly", [False, True], ids=["usual", "hostile"])
def test_its_page_needs_no_network(view: type[BaseView], unfriendly: bool):
    page = made(view, unfriendly=unfriendly).to_html()
    parts = Tags(page)
    fetched = [v for name, v in parts.attributes if name in {"src", "href", "srcset", "action"}]
    assert fetched == ["data:,"]
    assert (parts.tags.count("script"), parts.tags.count("img")) == (2, 0)
    assert "url(" not in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    script = page.rpartition('<script type="module">')[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'; style-src" in page


def filled(view: Any) -> dict[str, Any]:
    """A value unlike the fresh one for each trait that the state remembers."""
    values = dict(VALUES)
    for name in view._remembered:
        trait = view.traits()[name]
        form = name.rpartition("_")[2]  # a pane's trait has the form of the view's own
        if isinstance(trait, traitlets.Enum):
            values[name] = trait.values[-1]
        else:
            values[name] = VALUES.get(form, 9 if form == "selected" else 2)
    return {name: values[name] for name in view._remembered}


@views
def test_its_state_reopens_it(view: type[BaseView]):
    first, fresh = made(view), made(view)
    for name, value in filled(first).items():
        setattr(first, name, value)
    again = made(view, state=first.state)
    for name in first._remembered:
        assert getattr(again, name) == getattr(first, name)
        assert getattr(first, name) != getattr(fresh, name), name
    assert again.state == first.state
    assert made(view, state=fresh.state).state == fresh.state


@views
def test_a_state_that_is_none_is_refused_and_changes_nothing(view: type[BaseView]):
    shown = made(view, theme="dark")
    before = {name: getattr(shown, name) for name in (*shown._remembered, "state")}
    for rubbish in RUBBISH:
        with pytest.raises(ValueError, match=r"^(?:state|bad query field)"):
            shown.state = rubbish
        assert {name: getattr(shown, name) for name in before} == before, rubbish


@views
def test_a_state_of_something_else_leaves_the_view_whole(view: type[BaseView]):
    shown = made(view)
    for away in AWAY:
        shown.state = away
        assert shown.state == write_state({n: getattr(shown, n) for n in shown._remembered})
        assert read_state(shown.state).keys() <= {*shown._remembered}
        static(shown)
    assert "<!doctype html>" in shown.to_html()
