"""Prints every file of the views and its compact form as JSON, for `same_code.mjs`."""

import json

from workbench.widgets import assets
from workbench.widgets.compact import compacted

texts = {p.name: p.read_text(encoding="utf-8") for p in sorted(assets.STATIC.glob("*.js"))}
print(json.dumps({name: [text, compacted(text)] for name, text in texts.items()}))
