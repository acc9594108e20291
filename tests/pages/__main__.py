"""Writes docs/operators, docs/passes.md and the palette's copy, and removes what is no page any more."""

import json
import sys

from tests.pages import passes
from tests.pages.write import FOLDER, pages
from workbench.widgets import assets


def main() -> int:
    """Write every page that changed."""
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
    passes.PAGE.write_text(passes.page(), encoding="utf-8")
    palette = json.dumps(assets.colors(), indent=2, ensure_ascii=False) + "\n"
    (assets.STATIC / "palette.json").write_text(palette, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
