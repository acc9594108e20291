"""The recorded edits that culprits come from: wrong rewrites are named by pass and rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.errors import WorkbenchError
from workbench.numerics.bisect.bisect import where_it_went_wrong
from workbench.numerics.compare.culprit import Cause, Culprit

MOST = 3
"""The number of culprits whose edits are looked for; each takes up to a dozen partial runs."""


def with_edits(
    culprits: Iterable[Culprit],
    build: Build,
    inputs: Mapping[str, Any],
    source: Mapping[int, tuple[int, ...]],
) -> Iterator[Culprit]:
    """The culprits, the first wrong rewrites among them with their edits.

    Args:
        culprits: The most likely first.
        build: The build.
        inputs: An array for each parameter.
        source: The source's instructions whose value each compiled one computes, by id.
    """
    left = MOST
    for culprit in culprits:
        if culprit.cause is Cause.REWRITE and culprit.id in source and left:
            left -= 1
            yield _with_edit(culprit, build, inputs, source[culprit.id][0])
        else:
            yield culprit


def _with_edit(culprit: Culprit, build: Build, inputs: Mapping[str, Any], value: int) -> Culprit:
    try:
        found = where_it_went_wrong(build, inputs, value, culprit.bound)
    except WorkbenchError:  # a program between two edits does not run
        return culprit
    edit, step = found.edit, found.step
    if edit is None or step is None:
        return culprit
    reason = (
        f"{culprit.reason}; after pass {step.name}, edit {edit.index + 1} of {len(step.edits)}, "
        f"by {edit.label}: {edit.law}"
    )
    named = [s for s in (culprit.sources, found.sources) if s]
    return replace(culprit, sources=min(named, key=len, default=()), edit=edit, reason=reason)
