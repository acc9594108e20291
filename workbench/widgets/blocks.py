"""Repeated blocks: the overlay's numbers of each block of a fold, and in what two of its blocks differ."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench.widgets.facts import facts_of
from workbench.widgets.query import Facts
from workbench.widgets.scene import Scene

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = (
    "operation", "a", "b", "nodes of a", "nodes of b", "differs", "constants: largest difference",
)  # fmt: skip


class Block(NamedTuple):
    """One block of a fold."""

    name: str
    ids: list[int]
    """Its instructions, in the program's order; those inside kernels come last."""
    outside: int
    """The number of those that are not inside kernels."""


def fold_of(scene: Scene, key: str | None) -> int:
    """The number of the group with a key that is a fold; without a key, of the only one that is in no other.

    Raises:
        ValueError: There is none, or there are several.
    """
    groups = scene.graph.groups
    folds = {g.key: k for k, g in enumerate(groups) if g.times}
    if key is not None and key in folds:
        return folds[key]
    outer = [k for k in folds.values() if not any(groups[g].times for g in around(scene, k))]
    if key is None and len(outer) == 1:
        return outer[0]
    listed = ", ".join(map(repr, folds)) or "none: no blocks of this program repeat"
    asked = "several blocks repeat" if key is None and folds else f"no repeated blocks {key!r}"
    raise ValueError(f"{asked}; expected the key of one of {listed}")


def around(scene: Scene, group: int) -> Iterator[int]:
    """The groups around a group, the inner ones first."""
    while (group := scene.graph.groups[group].parent) >= 0:
        yield group


def blocks_of(scene: Scene, versions: Iterable[int], fold: int) -> list[Block]:
    """The blocks of a fold, with the instructions of some versions that are in them."""
    groups, slots = scene.graph.groups, len(scene.graph.parent)
    found: dict[int, list[Any]] = {}
    for version in versions:
        slot = block = scene.slots[version]
        group = scene.graph.parent[slot] if slot >= 0 else -1
        while group not in (fold, -1):
            block, group = slots + group, groups[group].parent
        if group == fold:
            found.setdefault(block, []).append(scene.versions[version])
    names = {k: groups[k - slots].label if k >= slots else f"block {k}" for k in found}
    return [
        Block(names[k], [n.id for n in found[k]], sum(not n.module for n in found[k]))
        for k in sorted(found)
    ]


def values_of(overlay: Mapping[str, Any], ids: Iterable[int]) -> list[float]:
    """The overlay's numbers of some instructions; one that is not finite is NaN."""
    values = overlay.get("values", {})
    found = (values[str(id)] for id in ids if str(id) in values)
    return [math.nan if value is None else float(value) for value in found]


def value_of(overlay: Mapping[str, Any], ids: Iterable[int]) -> float | None:
    """The number that a closed group of some instructions has: their sum, or the worst; None without any."""
    values = values_of(overlay, ids)
    if not values:
        return None
    if overlay["total"]:
        return sum(values)
    return math.nan if any(map(math.isnan, values)) else max(values)


def frame(blocks: Sequence[Block], overlay: Mapping[str, Any]) -> DataFrame:
    """A row for each block: its name, the number of its instructions, and the overlay's numbers."""
    from pandas import DataFrame  # noqa: PLC0415

    table = DataFrame(
        {"block": [b.name for b in blocks], "instructions": [b.outside for b in blocks]}
    )
    if overlay:
        words = " ".join(filter(None, (overlay["name"], overlay["unit"])))
        values = [np.array(values_of(overlay, block.ids)) for block in blocks]
        for name, made in (("least", np.min), ("largest", np.max), ("sum of", np.sum)):
            table[f"{name} {words}"] = [made(v) if len(v) else math.nan for v in values]
    return table


class Known(NamedTuple):
    """The facts of a program by which two of its blocks are compared."""

    scene: Scene
    versions: Sequence[int]
    rows: Mapping[int, Any]
    """The program's rows, by id."""
    overlay: Mapping[str, Any]

    @property
    def words(self) -> str:
        """The name of the overlay's numbers, with their unit."""
        return " ".join(filter(None, (self.overlay.get("name"), self.overlay.get("unit"))))

    def chips(self) -> set[int]:
        """The constants that are drawn on their users."""
        scene = self.scene
        return {scene.versions[v].id for v in self.versions if scene.slots[v] < 0}


def compared(known: Known, a: Block, b: Block) -> DataFrame:
    """A row for each instruction in which two blocks differ by more than names."""
    from pandas import DataFrame  # noqa: PLC0415

    facts = {fact.id: fact for fact in facts_of(known.scene, known.versions)}
    listed = [[facts[id] for id in block.ids] for block in (a, b)]
    chips = known.chips()
    found = [_row(x, y, known, chips) for x, y in _aligned(*listed)]
    columns = [*COLUMNS, *([f"{known.words} of {x}" for x in "ab"] if known.overlay else ())]
    return DataFrame([row for row in found if row["differs"]], columns=columns)


def _aligned(
    first: Sequence[Facts], second: Sequence[Facts]
) -> Iterator[tuple[Facts | None, Facts | None]]:
    """Pairs of instructions of two blocks by operation and order; None stands for no counterpart."""
    titles = [[fact.title for fact in facts] for facts in (first, second)]
    matcher = SequenceMatcher(None, *titles, autojunk=False)
    for same, a, a_end, b, b_end in matcher.get_opcodes():
        if same == "equal":
            yield from zip(first[a:a_end], second[b:b_end], strict=True)
        else:
            yield from ((fact, None) for fact in first[a:a_end])
            yield from ((None, fact) for fact in second[b:b_end])


def _row(a: Facts | None, b: Facts | None, known: Known, chips: Container[int]) -> dict[str, Any]:
    """The row of a pair of instructions: names, and in what they differ."""
    both = [fact for fact in (a, b) if fact is not None]
    apart = _constants_apart(both[0].id, both[1].id, known.rows, chips) if a and b else None
    x, y = (value_of(known.overlay, [fact.id]) if fact else None for fact in (a, b))
    differs = {
        "no counterpart": len(both) < 2,
        "attributes": both[0].text != both[-1].text,
        "shape": both[0].shape != both[-1].shape,
        "constants": apart is not None and apart != 0,
        known.words: not (
            x == y or (x is not None and y is not None and math.isnan(x) and math.isnan(y))
        ),
    }
    said = (
        both[0].title,
        *(fact.name if fact else "" for fact in (a, b)),
        *(", ".join(s.name for s in fact.sources) if fact else "" for fact in (a, b)),
        ", ".join(name for name, does in differs.items() if does),
        apart,
    )
    return dict(zip(COLUMNS, said, strict=True)) | {
        f"{known.words} of a": x,
        f"{known.words} of b": y,
    }


def _constants_apart(
    a: int, b: int, rows: Mapping[int, Any], chips: Container[int]
) -> float | None:
    """The largest difference of the elements of the constants that two rows take; None if they take none.

    It is NaN where an element is, and infinite where shapes differ.
    """
    taken = (_literals(rows[id], rows, chips) for id in (a, b))
    pairs = list(zip(*taken, strict=False))
    found = [_apart(x.numpy(), y.numpy()) for x, y in pairs if x is not y]
    return max(found, key=lambda v: (math.isnan(v), v), default=0.0) if pairs else None


def _apart(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> float:
    if x.shape != y.shape:
        return math.inf
    if not x.size:
        return 0.0
    return float(np.max(np.abs(x.astype(np.float64) - y.astype(np.float64))))


def _literals(row: Any, rows: Mapping[int, Any], chips: Container[int]) -> list[Any]:
    """The literals that a row takes, by itself or through instructions that are chips on it."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting = [*reversed(row.inputs)]
    while waiting:
        id = waiting.pop()
        if id in seen or id not in chips:
            continue
        seen.add(id)
        if rows[id].literal is not None:
            found.append(rows[id].literal)
        waiting += reversed(rows[id].inputs)
    return found
