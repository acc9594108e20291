"""The step from one drawn state of a program to the next: only what differs is drawn anew."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from workbench.widgets.drawing import FAN_OUT, Drawing
from workbench.widgets.nodes import Table

ORDER = 2
"""The column of a row with its place in its module."""


class Redrawing:
    """Follows the rows that differ to the users, constants and nodes that differ with them."""

    def __init__(self, old: Drawing, rows: Any) -> None:
        """Find the rows that differ."""
        self.old = old
        table = Table(rows.name, source_nodes=rows.source_nodes, gradients=rows.gradients)
        table.nodes, table.hoisted = dict(old.table.nodes), dict(old.table.hoisted)
        table.modules = {key: module.name for key, module in rows.modules.items()}
        self.new = Drawing(
            rows.instructions, rows.modules, rows.source_nodes, old.words, table,
            dict(old.order), dict(old.callers), {}, dict(old.users), dict(old.cone),
            set(old.constants), dict(old.parts),
        )  # fmt: skip
        before, now = old.rows, rows.instructions
        self.changed = {id: row for id, row in now.items() if before.get(id) is not row}
        """The rows that are new or not what they were."""
        lost = (before.keys() & self.changed.keys()) | (before.keys() - now.keys())
        self.lost = {id: before[id] for id in sorted(lost)}
        """What they were, and those that are there no more."""

    def made(self) -> Drawing:
        """The drawing of the new state."""
        self.sorted = self._sort()
        self._reach()
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
        come: dict[int, list[Any]] = {}
        for row in self.changed.values():
            come.setdefault(row.module, []).append(row)
        modules = come.keys() | {row.module for row in self.lost.values()}
        for module in modules:
            more = come.get(module, ())
            callers = [row for row in more if row.modules]
            for lists, rows_here in ((new.order, more), (new.callers, callers)):
                ids = [id for id in lists.pop(module, ()) if id not in self.lost]
                if rows_here:
                    ids = sorted(
                        [*ids, *(row.id for row in rows_here)], key=lambda i: rows[i][ORDER]
                    )
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
        self.come = {id: row for id, row in self.changed.items() if row.module in now}
        """The rows to draw that were not drawn, or were others."""
        self.gone = {id: row for id, row in self.lost.items() if row.module in old.reached}
        """The rows that are not drawn any more, or are others."""
        for module in now.keys() - old.reached.keys():
            self.come |= {id: new.rows[id] for id in new.order.get(module, ())}
        for module in old.reached.keys() - now.keys():
            self.gone |= {id: old.rows[id] for id in old.order.get(module, ())}

    def _connect(self) -> set[int]:
        """Find the users of each value; returns the values of which other users are drawn as chips."""
        users = self.new.users
        left: dict[int, set[int]] = {}
        for id, row in self.gone.items():
            for source in row.inputs:
                left.setdefault(source, set()).add(id)
        joined: dict[int, list[int]] = {}
        for id, row in self.come.items():
            for source in dict.fromkeys(row.inputs) if len(row.inputs) > 1 else row.inputs:
                joined.setdefault(source, []).append(id)
        for source, ids in left.items():
            kept = [id for id in users.pop(source, ()) if id not in ids]
            if kept := kept + joined.pop(source, []):
                users[source] = kept
        for source, ids in joined.items():
            users[source] = [*users.get(source, ()), *ids]
        self.reconnected = left.keys() | joined.keys()
        """The values that have other users, or whose users are others."""
        old, new = self.old, self.new
        many = (d.users.get(id, ()) for id in self.reconnected for d in (old, new))
        asked = self.reconnected if any(len(ids) > FAN_OUT for ids in many) else ()
        return {id for id in asked if old.first_user(id) != new.first_user(id)}

    def _weigh(self) -> set[int]:
        """Find the constants; returns those that are chips and were none, or the other way round."""
        new, cone = self.new, self.new.cone
        for id in self.gone.keys() - self.come.keys():
            cone.pop(id, None)
        waiting = [*self.come]
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
        asked = ends.union(waiting, self.reconnected, self.gone)
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
        for id in self.come.keys() | self.gone.keys():
            if not self._is_alike(id):
                touched.add(id)
        waiting = [*touched]
        for id in waiting:  # a chip is labelled as the literal at the root of its constant
            more = [u for u in new.users.get(id, ()) if u in new.cone and u not in touched]
            waiting += more
            touched.update(more)
        stale = {id for id, row in self.come.items() if not _moved(self.gone.get(id), row)}
        stale.update(*(new.users.get(id, ()) for id in touched))
        stale.update(touched & new.rows.keys())
        stale.update(id for id in self.reconnected if (id in old.users) != (id in new.users))
        bodies = {m for m, module in new.modules.items() if old.modules.get(m) is not module}
        for module in bodies:
            stale.update(new.order.get(module, ()))
        bodies |= {m for m in self.sorted if new.parts.get(m) != old.parts.get(m)}
        callers = [id for m in new.reached for id in new.callers.get(m, ())]
        stale.update(id for id in callers if not bodies.isdisjoint(new.rows[id].modules))
        return {id for id in stale if id in new.rows and new.rows[id].module in new.reached}

    def _is_alike(self, id: int) -> bool:
        """Whether what users show of a row is what it was."""
        was, row = self.gone.get(id), self.come.get(id)
        if was is None or row is None:
            return False
        alike = was.op is row.op and was.shape is row.shape and was.module == row.module
        return alike and was.literal is row.literal and (
            id not in self.new.cone or (was.inputs, was.sources) == (row.inputs, row.sources)
        )  # fmt: skip

    def _write(self, stale: Iterable[int]) -> None:
        """Write the nodes that differ into the table; equal nodes of two states are one object."""
        new, table = self.new, self.new.table
        nodes, hoisted = table.nodes, table.hoisted
        for id in self.gone.keys() - self.come.keys():
            nodes.pop(id, None)
            hoisted.pop(id, None)
        for id in stale:
            row = new.rows[id]
            table.fresh.add(id)
            was, made = nodes.pop(id, None) or hoisted.pop(id, None), new.node(row)
            (hoisted if new.is_hidden(row) else nodes)[id] = (
                was if was is not None and was == made else made
            )


def _moved(was: Any, row: Any) -> bool:
    """Whether a row differs from what it was by its place in the order at most."""
    return was is not None and was[:2] == row[:2] and was[3:] == row[3:]
