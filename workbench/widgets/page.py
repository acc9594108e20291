"""One offline page: module and data are inlined, and its content security policy forbids any fetch."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from typing import Any

from workbench.widgets import assets

_START = """
const text = document.getElementById("wb-data").textContent;
const values = JSON.parse(text), heard = {};
const model = {
  get: (key) => values[key],
  set(key, value) { values[key] = value; for (const f of heard["change:" + key] ?? []) f(); },
  save_changes() {}, send() {},
  on(event, f) { (heard[event] ??= []).push(f); },
  off(event, f) { heard[event] = (heard[event] ?? []).filter((g) => g !== f); },
};
window.__wbModel = model;
$shell.followAddress(model);
entry.render({ model, el: document.getElementById("wb") });
addEventListener("keydown", (e) => {
  const target = document.querySelector(".wb-timeline, .wb-tree");
  if (e.target !== document.body || !target) return;
  const again = new KeyboardEvent("keydown", { key: e.key, bubbles: true, cancelable: true });
  if (!target.dispatchEvent(again)) e.preventDefault();
});
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{digest}'; \
style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
html, body {{ margin: 0; height: 100%; background: Canvas; }}
main, #wb {{ height: 100%; }}
h1 {{ position: absolute; clip-path: inset(50%); }}
.wb-root {{ --wb-height: max(100vh, 560px) !important; border: 0 !important; border-radius: 0 !important; }}
{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div id="wb"></div>
</main>
<noscript>{summary}</noscript>
<script type="application/json" id="wb-data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def json_text(value: object) -> str:
    """JSON that cannot end the script element around it, whatever strings it contains."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for mark, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(mark, escape)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def page(entry: str, values: Mapping[str, Any], title: str, summary: str) -> str:
    """An HTML page that shows a view without a kernel or a network.

    Args:
        entry: The view's module, e.g. ``graph_view.js``.
        values: The traits that the view reads.
        title: The page's title.
        summary: The text for browsers without scripts.
    """
    stem = entry.removesuffix(".js")
    script = f"\n{assets.script(stem)}const entry = ${stem};{_START}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.format(
        digest=f"sha256-{digest}",
        title=html.escape(title),
        style=assets.style(),
        summary=html.escape(summary),
        data=json_text(dict(values)),
        script=script,
    )
