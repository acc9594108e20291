"""The recorded edits that culprits come from: wrong rewrites are named by pass and rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from workbench.compiler.builds.build import Build
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.rows import Row
from workbench.compiler.record.edits import Edit
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

    In a program of narrow types, a value that float64, too, computes wrongly is due to a rewrite if the first
    edit after which it is wrong has rounded no constant.

    Args:
        culprits: The most likely first.
        build: The build.
        inputs: An array for each parameter.
        source: The source's instructions whose value each compiled one computes, by id.
    """
    left = MOST
    for culprit in culprits:
        is_possible = culprit.cause is Cause.REWRITE or culprit.is_doubtful
        if is_possible and culprit.id in source and left:
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
    if edit is None or step is None or (culprit.is_doubtful and _rounds(edit)):
        return culprit
    wrong = "in float64, too, it differs from the reference, so a rewrite changed what it computes"
    reason = (
        f"{wrong if culprit.is_doubtful else culprit.reason}; after pass {step.name}, edit "
        f"{edit.index + 1} of {len(step.edits)}, by {edit.label}: {edit.law}"
    )
    named = [s for s in (culprit.sources, found.sources) if s]
    return replace(
        culprit, cause=Cause.REWRITE, sources=min(named, key=len, default=()), edit=edit, reason=reason,
        part=None, parts=(),
    )  # fmt: skip


def _rounds(edit: Edit) -> bool:
    """Whether an edit makes constants of narrow floats, or floats 8-bit integers."""
    return any(_is_rounded(row) for row in edit.rows.values() if row is not None)


def _is_rounded(row: Row) -> bool:
    types = [s.type for s in row.shape.subs or (row.shape,) if s.subs is None]
    integers = any(t.is_integral and t.size == 1 and t is not DType.BOOL for t in types)
    narrow = any(t.is_float and t.size < DType.FLOAT.size for t in types)
    return integers or (narrow and row.literal is not None)
