"""The documentation's links lead somewhere, and newcomers' questions are answered within two clicks."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "notebooks" / "README.md",
    DOCS / "gallery.py",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.py")),
]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    """A page without its code."""
    text = page.read_text(encoding="utf-8")
    if (
        page.suffix == ".py"
    ):  # a notebook as text: its comments, and the site is where it will stand
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    found: list[str] = []
    for head in heads:
        name = re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-")
        found.append(name if name not in found else f"{name}-{found.count(name)}")
    return set(found)


def links(page: Path) -> list[tuple[Path, str]]:
    """The pages of ours that a page links to, with the anchor in each."""
    folder = DOCS / "course" if page == DOCS / "gallery.py" else page.parent
    found: list[tuple[Path, str]] = []
    for target in LINK.findall(text_of(page)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            found.append(((folder / path).resolve() if path else page, anchor))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path):
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target.name}#{anchor}"


def test_thirty_questions_are_answered_within_two_clicks_of_the_start_page():
    """Only links in the text count: neither the site's sidebar, nor the list of questions itself."""
    questions = re.findall(r"^\d+\. .*\?\D* \[", (DOCS / "questions.md").read_text(), re.MULTILINE)
    answers = [target for target, _ in links(DOCS / "questions.md")]
    assert len(questions) == len(answers) == 30
    first = {target for target, _ in links(DOCS / "index.md")}
    text = {page for page in first if page.suffix in (".md", ".py")} - {DOCS / "questions.md"}
    second = {target for page in text for target, _ in links(page)}
    assert [page.name for page in answers if page not in first | second] == []
