"""The step from one drawn state of a program to the next: only what differs is drawn anew."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any

from workbench.widgets.drawing import FAN_OUT, Drawing
from workbench.widgets.nodes import Table

PLACE = itemgetter(2)
"""The column of a row with its place in its module."""
Pair = tuple[int, Any, Any]
"""An id, and its row before and after; None where it is not drawn."""
FEW = 16
"""Rows are put in their places one by one if there are this many times as many others."""


class Redrawing:
    """Follows the rows that differ to the users, constants and nodes that differ with them."""

    def __init__(self, old: Drawing, rows: Any, touched: Iterable[int] | None = None) -> None:
        """Find the rows that differ, of all or of those that edits touched since the old state."""
        self.old = old
        table = Table(rows.name, source_nodes=rows.source_nodes, gradients=rows.gradients)
        table.nodes, table.hoisted = dict(old.table.nodes), dict(old.table.hoisted)
        table.modules = {key: module.name for key, module in rows.modules.items()}
        self.new = Drawing(
            rows.instructions, rows.modules, rows.source_nodes, old.words, table,
            dict(old.order), dict(old.callers), {}, dict(old.users), dict(old.cone),
            set(old.constants), dict(old.parts), set(old.wide),
        )  # fmt: skip
        before, now = old.rows, rows.instructions
        ids = [*now, *(before.keys() - now.keys())] if touched is None else touched
        self.differ: list[Pair] = [
            (id, was, row) for id in ids if (was := before.get(id)) is not (row := now.get(id))
        ]
        """What each row that differs was and is."""

    def made(self) -> Drawing:
        """The drawing of the new state."""
        self.sorted = self._sort()
        self._reach()
        self._compare()
        ported = self._connect()
        flipped = self._weigh()
        self._write(self._stale(ported | flipped))
        self.new.table.order = list(self.new.ids())
        callers = self.new.callers
        self.new.table.callers = [id for m in self.new.reached for id in callers.get(m, ())]
        self.new.table.since = self.old.table.mark
        return self.new

    def _sort(self) -> set[int]:
        """Put the ids of each module in order in which rows differ; returns these modules."""
        new, rows = self.new, self.new.rows
        come = defaultdict[int, list[Any]](list)
        lost: set[int] = set()
        modules: set[int] = set()
        for id, was, row in self.differ:
            if row is not None:
                come[row.module].append(row)
            if was is not None:
                lost.add(id)
                modules.add(was.module)
        modules |= come.keys()
        for module in modules:
            more = come.get(module, ())
            callers = [row for row in more if row.modules]
            for lists, rows_here in ((new.order, more), (new.callers, callers)):
                ids = [id for id in lists.pop(module, ()) if id not in lost]
                if rows_here:
                    ids = _merged(ids, rows_here, rows)
                if ids:
                    lists[module] = ids
        return modules

    def _reach(self) -> None:
        """Find what is drawn: what the main module reaches."""
        old, new = self.old, self.new
        new.reached = now = new.reach()
        for module in now:
            if module and (module in self.sorted or module not in old.reached):
                new.parts[module] = new.parts_of(module)
        for module in old.reached.keys() - now.keys():
            new.parts.pop(module, None)
        # What was drawn or is drawn, of rows that differ and of modules that are reached now, or no more.
        self.differ = [
            (
                id,
                was if was is not None and was.module in old.reached else None,
                row if row is not None and row.module in now else None,
            )
            for id, was, row in self.differ
        ]
        more = [i for m in now.keys() - old.reached.keys() for i in old.order.get(m, ())]
        more += [i for m in old.reached.keys() - now.keys() for i in old.order.get(m, ())]
        if more:
            self._reach_more(more)

    def _reach_more(self, ids: Iterable[int]) -> None:
        """Add rows that may be the same, but of which the module is reached only before or only now."""
        known = {id for id, _, _ in self.differ}
        for id in ids:
            if id in known:
                continue
            row = self.new.rows[id]
            is_now = row.module in self.new.reached
            self.differ.append((id, None, row) if is_now else (id, row, None))

    def _compare(self) -> None:
        """Find in what the rows differ: in many it is their place only."""
        self.wired: list[Pair] = []
        """Those that are new or have other inputs."""
        self.moved: list[Pair] = []
        """Those that have another place in the order at most."""
        self.altered: list[Pair] = []
        """All others that are drawn."""
        self.away: list[Pair] = []
        """Those that are drawn no more."""
        for pair in self.differ:
            _, was, row = pair
            if row is None:
                if was is not None:
                    self.away.append(pair)
            elif was is None or was.inputs != row.inputs:
                self.wired.append(pair)
            else:
                (self.moved if _is_moved(was, row) else self.altered).append(pair)

    def _connect(self) -> set[int]:
        """Find the users of each value; returns the values of which other users are drawn as chips."""
        old, new = self.old, self.new
        users = new.users
        left = defaultdict[int, set[int]](set)
        joined = defaultdict[int, list[int]](list)
        for id, was, _ in (*self.wired, *self.away):
            for source in was.inputs if was is not None else ():
                left[source].add(id)
        for id, _, row in self.wired:
            inputs = row.inputs
            for source in dict.fromkeys(inputs) if len(inputs) > 1 else inputs:
                joined[source].append(id)
        for source, ids in left.items():
            kept = [id for id in users.pop(source, ()) if id not in ids]
            if kept := [*kept, *joined.get(source, ())]:
                users[source] = kept
        for source in joined.keys() - left.keys():
            users[source] = [*users.get(source, ()), *joined[source]]
        self.reconnected = left.keys() | joined.keys()
        """The values that have other users."""
        new.wide -= self.reconnected
        new.wide |= {id for id in self.reconnected if len(users.get(id, ())) > FAN_OUT}
        if not (wide := old.wide | new.wide):
            return set()
        still = {i for _, _, row in (*self.moved, *self.altered) for i in row.inputs if i in wide}
        asked = still | (wide & self.reconnected)
        return {id for id in asked if old.first_user(id) != new.first_user(id)}

    def _weigh(self) -> set[int]:
        """Find the constants; returns those that are chips and were none, or the other way round."""
        new, cone = self.new, self.new.cone
        away = [id for id, _, _ in self.away]
        for id in away:
            cone.pop(id, None)
        waiting = [id for id, _, _ in (*self.wired, *self.altered)]
        listed = set(waiting)
        for id in waiting:
            listed.discard(id)
            size = new.cone_of(new.rows[id])
            if size == cone.get(id, 0):
                continue
            cone[id] = size
            if not size:
                del cone[id]
            more = [u for u in new.users.get(id, ()) if u not in listed]
            waiting += more
            listed.update(more)
        ends = {
            order[-1] for d in (self.old, new) for m in self.sorted if (order := d.order.get(m))
        }
        asked = ends.union(waiting, self.reconnected, away)
        now = {id for id in asked if new.is_constant(id)}
        flipped = {id for id in asked if (id in now) != (id in new.constants)}
        new.constants -= asked
        new.constants |= now
        return flipped

    def _stale(self, touched: set[int]) -> Collection[int]:
        """The ids whose nodes may differ: their rows do, or facts of their inputs or bodies.

        Args:
            touched: The values that are drawn otherwise on their users.
        """
        new, old = self.new, self.old
        if not old.rows:
            return new.rows.keys() if len(new.reached) == len(new.order) else set(new.ids())
        others = (*self.wired, *self.altered)
        # The users of new rows are among these: they have other inputs.
        touched.update(id for id, was, row in others if was and not self._is_alike(was, row))
        waiting = [*touched]
        for id in waiting:  # a chip is labelled as the literal at the root of its constant
            more = [u for u in new.users.get(id, ()) if u in new.cone and u not in touched]
            waiting += more
            touched.update(more)
        stale = touched | {id for id, _, _ in others}
        stale.update(*(new.users.get(id, ()) for id in touched))
        stale.update(id for id in self.reconnected if (id in old.users) != (id in new.users))
        bodies = {m for m, module in new.modules.items() if old.modules.get(m) is not module}
        for module in bodies & old.modules.keys():
            stale.update(new.order.get(module, ()))
        bodies |= {m for m in self.sorted if new.parts.get(m) != old.parts.get(m)}
        callers = [id for m in new.reached for id in new.callers.get(m, ())]
        stale.update(id for id in callers if not bodies.isdisjoint(new.rows[id].modules))
        return {id for id in stale if id in new.rows and new.rows[id].module in new.reached}

    def _is_alike(self, was: Any, row: Any) -> bool:
        """Whether what users show of a row is what it was."""
        alike = was.op is row.op and was.shape is row.shape and was.module == row.module
        return alike and was.literal is row.literal and (
            row.id not in self.new.cone or (was.inputs, was.sources) == (row.inputs, row.sources)
        )  # fmt: skip

    def _write(self, stale: Iterable[int]) -> None:
        """Write the nodes that differ into the table; equal nodes of two states are one object."""
        new, table = self.new, self.new.table
        nodes, hoisted = table.nodes, table.hoisted
        for id, _, _ in self.away:
            nodes.pop(id, None)
            hoisted.pop(id, None)
        table.fresh.update(stale)
        for id in stale:
            row = new.rows[id]
            into, other = (hoisted, nodes) if new.is_hidden(row) else (nodes, hoisted)
            was, made = into.get(id) or other.pop(id, None), new.node(row)
            into[id] = was if was is not None and was == made else made


def _is_moved(was: Any, row: Any) -> bool:
    """Whether a row differs from what it was by its place in the order at most."""
    return was[1] == row[1] and was[3:] == row[3:]


def _merged(ids: list[int], more: Sequence[Any], rows: dict[int, Any]) -> list[int]:
    """Ids in order and further rows, as ids in the order of their places."""
    if len(more) * FEW > len(ids):
        return [row.id for row in sorted([*map(rows.__getitem__, ids), *more], key=PLACE)]
    made: list[int] = []
    start = 0
    for row in sorted(more, key=PLACE):
        end = bisect_right(ids, PLACE(row), start, key=lambda i: PLACE(rows[i]))
        made += ids[start:end]
        made.append(row.id)
        start = end
    return made + ids[start:]
