"""The report of a build: the workbench on it, profiled and compared, as one offline page."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.widgets.workbench_view import Workbench


def report_page(
    build: Build,
    path: str | PathLike[str],
    inputs: Mapping[str, Any] | None,
    *,
    compare: bool,
    seed: int,
) -> Workbench:
    """Profile and compare a build, and write the workbench on it as one offline page."""
    view = Workbench(build, settings={"seed": seed})
    view.session.given = inputs
    view.do("profile")
    if compare:
        view.do("compare")
    view.to_html(Path(path))
    return view
