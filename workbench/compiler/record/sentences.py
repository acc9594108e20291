"""Sentences about edits, such as "two equal adds became one", composed from the rows of each edit."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import TYPE_CHECKING, overload

from workbench.compiler.ir.builtin import Identity, Literal, Param, Return
from workbench.compiler.ir.operation import Family
from workbench.compiler.ir.rows import ModuleRow, Row, Rows
from workbench.compiler.ops.fused import Group

if TYPE_CHECKING:
    from workbench.compiler.record.edits import Edit, Step

Begun = Callable[[], tuple[Rows, Mapping[int, Iterable[int]]]]
_LISTED = 5
_NO_WORK = (Literal, Param, Return)
_NUMBERS = {2: "two", 3: "three"}


class Sentences(Sequence[str]):
    """A sentence for each edit of a step, its effect on the program; composed when it is asked for."""

    def __init__(self, step: Step, begun: Begun | None = None) -> None:
        """Compose none yet.

        Args:
            step: The step.
            begun: Makes the rows before the step, and the ids of each module; by default they are replayed.
        """
        self._edits = step.edits
        self._begun = begun or (lambda: _members(step.recording.rows_after(step.index - 1)))
        self._said: dict[int, str] = {}
        self._next = 0
        """The edit before which the state is."""
        self._state: _State | None = None

    def __len__(self) -> int:
        """The number of edits."""
        return len(self._edits)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """The sentence of an edit, or those of several."""
        indices = range(len(self))[index]
        return self._of(indices) if isinstance(indices, int) else [self._of(k) for k in indices]

    def _of(self, k: int) -> str:
        if k not in self._said:
            edit, state = self._edits[k], self._before(k)
            before = state.changed_by(edit)
            state.change(edit)
            self._next = k + 1
            self._said[k] = _Sentence(edit, before, state).text()
        return self._said[k]

    def _before(self, k: int) -> _State:
        """The state before edit ``k``; it goes through the edits, from the first if need be."""
        if self._state is None or k < self._next:
            self._state, self._next = _State.of(*self._begun()), 0
        for edit in self._edits[self._next : k]:
            self._state.change(edit)
        self._next = k
        return self._state


class _Members(dict[int, set[int]]):
    """The ids of each module that was looked at; those of others are read from a table."""

    def __init__(self, table: Mapping[int, Iterable[int]]) -> None:
        self._table = table

    def __missing__(self, module: int) -> set[int]:
        self[module] = ids = set(self._table.get(module, ()))
        return ids


def _members(rows: Rows) -> tuple[Rows, dict[int, list[int]]]:
    """Some rows, and the ids of each module."""
    members: dict[int, list[int]] = {}
    for row in rows.instructions.values():
        members.setdefault(row.module, []).append(row.id)
    return rows, members


class _State:
    """A program as rows, and the ids of each module but the main one."""

    def __init__(
        self,
        rows: MutableMapping[int, Row],
        modules: MutableMapping[int, ModuleRow],
        members: MutableMapping[int, set[int]],
    ) -> None:
        self.rows, self.modules, self.members = rows, modules, members

    @classmethod
    def of(cls, rows: Rows, members: Mapping[int, Iterable[int]]) -> _State:
        """The state that some rows are; the ids of a module are copied when it is looked at."""
        return cls(dict(rows.instructions), dict(rows.modules), _Members(members))

    def changed_by(self, edit: Edit) -> _State:
        """This state as it is seen after an edit is made in it: it holds only the difference."""
        rows = {id: old for id in edit.rows if (old := self.rows.get(id)) is not None}
        touched = {r.module for r in (*rows.values(), *edit.rows.values()) if r is not None}
        modules = {k: self.modules[k] for k in edit.modules if k in self.modules}
        members = {key: {*self.members[key]} for key in touched if self.is_body(key)}
        return _State(
            ChainMap(rows, self.rows),
            ChainMap(modules, self.modules),
            ChainMap(members, self.members),
        )

    def change(self, edit: Edit) -> None:
        """Make an edit."""
        for id, row in edit.rows.items():
            if (old := self.rows.pop(id, None)) is not None and old.module:
                self.members[old.module].discard(id)
            if row is not None:
                self.rows[id] = row
                if row.module:
                    self.members[row.module].add(id)
        for key, module in edit.modules.items():
            if module is None:
                self.modules.pop(key, None)
            else:
                self.modules[key] = module

    def is_body(self, key: int) -> bool:
        """Whether a module is the body of a kernel."""
        return key in self.modules and self.modules[key].bypass

    def bodies(self, row: Row) -> list[int]:
        """The modules of a kernel."""
        return [key for key in row.modules if self.is_body(key)]

    def leaves(self, row: Row) -> list[str]:
        """The operations of an instruction: those in its bodies, or its own."""
        bodies = self.bodies(row) if row.modules else []
        if not bodies:
            return [] if isinstance(row.op, _NO_WORK) else [row.op.name]
        rows = self.rows
        inside = [rows[id] for key in bodies for id in self.members[key]]
        inside = [r for r in inside if r.modules or not isinstance(r.op, _NO_WORK)]
        found: list[str] = []
        for r in sorted(inside, key=_order):
            found += self.leaves(r) if r.modules else (r.op.name,)
        return found


def _order(row: Row) -> tuple[int, int]:
    return row.module, row.order


class _Sentence:
    """One edit, between the states before and after it."""

    def __init__(self, edit: Edit, before: _State, after: _State) -> None:
        self.edit, self.before, self.after = edit, before, after
        self.removed = _seen(before, edit.removed)
        self.added = _seen(after, edit.added)
        self.changed = _seen(after, edit.changed)

    def text(self) -> str:
        """The sentence."""
        if fused := self._fused():
            return fused
        if not self.removed and not self.added:
            return self._changed()
        if not self.added:
            return self._removed()
        if all(isinstance(r.op, Literal) for r in self.added):
            return self._folded()
        if not self.removed:
            return self._inserted()
        return self._rewritten()

    # Kernels

    def _fused(self) -> str:
        """The sentence of an edit that made a kernel, or put more work into one."""
        kernels = [r for r in (*self.added, *self.changed) if not self.after.is_body(r.module)]
        made = [(k, p) for k in kernels if self.after.bodies(k) and (p := self._parts(k))]
        return "; ".join(self._fused_into(kernel, parts) for kernel, parts in made)

    def _parts(self, kernel: Row) -> list[Row]:
        """The instructions, as they were before, of which a kernel was made; none if it was one before."""
        inside, holds = set(self._inside(kernel)), Counter(self.after.leaves(kernel))
        gone = [
            r
            for r in self.removed
            if self.before.bodies(r) and Counter(self.before.leaves(r)) <= holds
        ]
        taken = [
            r
            for id in (*self.edit.changed, *self.edit.moved)
            if id in inside and (r := self.before.rows[id]) and not self.before.is_body(r.module)
        ]
        was = [] if kernel.id in self.edit.added else [self.before.rows[kernel.id]]
        known = [r for r in was if self.before.bodies(r)]
        parts = sorted({r.id: r for r in (*gone, *taken, *known)}.values(), key=_order)
        same = not taken and any(Counter(self.before.leaves(r)) == holds for r in parts)
        return [] if same or parts == known else parts

    def _inside(self, kernel: Row) -> Iterator[int]:
        for key in self.after.bodies(kernel):
            for id in self.after.members[key]:
                yield id
                yield from self._inside(self.after.rows[id])

    def _fused_into(self, kernel: Row, parts: list[Row]) -> str:
        names = [leaf for part in parts for leaf in self.before.leaves(part)]
        title = _kernel(kernel)
        if len(parts) == 1 and len(names) == 1:
            return (
                f"{names[0]} became {_a(title if title.endswith('group') else f'{title} kernel')}"
            )
        into = _a(title) if title.endswith("group") else title
        return f"{_listing(names) or 'a constant'} fused into {into}"

    # Without anything new

    def _changed(self) -> str:
        edit = self.edit
        if edit.replaced and not edit.removed:
            new = [self.after.rows[b] for _, b in edit.replaced if b in self.after.rows]
            return f"{_listing(_names(new))} took the place of others"
        rows = [r for r in self.changed if not isinstance(r.op, Return)] or self.changed
        if not rows:
            return self._moved()
        if len(rows) == 1 and (said := self._one_changed(rows[0])):
            return said
        return f"{_listing(_names(rows))} {_shared(rows, self.before) or 'changed'}"

    def _one_changed(self, row: Row) -> str:
        old, name = self.before.rows[row.id], _name(row)
        if old.op != row.op:
            return f"{name} changed{_attributes(old, row) or f' from {_name(old)}'}"
        if old.module != row.module:
            return f"{name} moved into module {self.after.modules[row.module].name!r}"
        if old.inputs == row.inputs:
            return f"the shape of {name} changed from {old.shape} to {row.shape}"
        left = [self.before.rows[i] for i in old.inputs if i not in row.inputs]
        new = [self.after.rows[i] for i in row.inputs if i not in old.inputs]
        if not left or not new:
            return ""
        return f"{name} reads {_listing(_names(new))} instead of {_listing(_names(left))}"

    def _moved(self) -> str:
        edit = self.edit
        if edit.moved:
            return f"{_count(len(edit.moved), 'instruction')} moved"
        gone = [self.before.modules[k].name for k, m in edit.modules.items() if m is None]
        made = [m.name for m in edit.modules.values() if m is not None]
        named = [*(f"module {n!r} removed" for n in gone), *(f"module {n!r} changed" for n in made)]
        return ", ".join(named) or "nothing that is shown changed"

    def _removed(self) -> str:
        edit, names = self.edit, _listing(_names(self.removed))
        if not edit.replaced:
            gone = {r.id for r in self.removed}
            users = [r for r in map(self._was, edit.changed) if not gone.isdisjoint(r.inputs)]
            it = "it" if len(self.removed) == 1 else "them"
            read = f"{_listing(_names(users))} no longer need{'s' * (len(users) == 1)} {it}"
            return f"{names} removed: {read if users else f'nothing used {it}'}"
        pairs = [(self._was(a), self.after.rows[b]) for a, b in edit.replaced]
        if all(old.op == new.op and old.literal == new.literal for old, new in pairs):
            return self._equal(pairs)
        olds = {old.id for old, _ in pairs}
        inputs = {i for r in self.removed for i in r.inputs}
        if not all(new.id in inputs for _, new in pairs) or len(pairs) > 1:
            kept = _listing(_names(new for _, new in pairs))
            return f"{names} removed: {kept} computes the same"
        old, new = pairs[0]
        one = len(self.removed) == 1 and old.id in olds
        return f"{names} removed: {_why_nothing(self.removed, one, new)}"

    def _was(self, id: int) -> Row:
        return self.before.rows[id]

    def _equal(self, pairs: list[tuple[Row, Row]]) -> str:
        kept = Counter(new.id for _, new in pairs)
        said = [
            f"{_number(count + 1)} equal {_plural(_name(self.after.rows[id]))} became one"
            for id, count in kept.items()
        ]
        return "; ".join(said[:_LISTED])

    # With something new

    def _folded(self) -> str:
        rows = [r for r in self.removed if not isinstance(r.op, Literal)]
        if not rows:
            counts = Counter(map(_name, self.added))
            return f"{_listing(counts.elements())} {'replaced' if self.removed else 'added'}"
        into = "a constant" if len(self.added) == 1 else f"{len(self.added)} constants"
        return f"{_listing(_names(rows))} folded into {into}"

    def _inserted(self) -> str:
        new = {r.id for r in self.added}
        users = [r for r in self.changed if not new.isdisjoint(r.inputs)]
        before = f" before {_listing(_names(users))}" if users else ""
        return f"{_listing(_names(self.added))} {'inserted' if users else 'added'}{before}"

    def _rewritten(self) -> str:
        old = [r for r in self.removed if not isinstance(r.op, Literal)] or self.removed
        new = [r for r in self.added if not isinstance(r.op, Literal)]
        was, now = Counter(map(_name, old)), Counter(map(_name, new))
        merged = next((n for n in now if now[n] == 1 < was[n] and not _is_view(n, old)), "")
        if merged:
            rest = _listing((now - was).elements())
            return f"{_number(was[merged])} {_plural(merged)} merged into one" + (
                f", with {rest}" if rest else ""
            )
        if len(old) == len(new) == 1 and was == now:
            changed = _attributes(old[0], new[0]) or _inputs(old[0], new[0])
            return f"{_name(old[0])} changed{changed}"
        if was == now:
            same = _names(old) == _names(new)
            how = "rewritten with other operands or attributes" if same else "changed places"
            return f"{_listing(was.elements())} {how}"
        return f"{_listing(_names(old))} rewritten as {_listing(_names(new))}"


# Words


def _seen(state: _State, ids: Iterable[int]) -> list[Row]:
    """The rows to speak of: computations in open modules; else constants; else those inside bodies."""
    rows = sorted((state.rows[id] for id in ids), key=_order)
    outside = [r for r in rows if not state.is_body(r.module)] or rows
    inner = [r for r in outside if not isinstance(r.op, Param | Return)] or outside
    return [r for r in inner if not isinstance(r.op, Literal)] or inner


def _name(row: Row) -> str:
    if isinstance(row.op, Literal):
        return "constant"
    if isinstance(row.op, Param):
        return f"parameter {row.op.parameter}"
    return "result" if isinstance(row.op, Return) else row.op.name


def _names(rows: Iterable[Row]) -> list[str]:
    return [_name(r) for r in rows]


def _kernel(row: Row) -> str:
    return f"{row.op.tag} group" if isinstance(row.op, Group) else row.op.name


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _number(count: int) -> str:
    return _NUMBERS.get(count, f"{count:,}")


def _plural(name: str) -> str:
    """``adds``, ``convolutions``; a name that cannot take an s becomes ``pointwise instructions``."""
    return (
        f"{name}s"
        if name.isalpha() and not name.endswith(("s", "wise", "x"))
        else f"{name} instructions"
    )


def _count(count: int, noun: str) -> str:
    return f"{_number(count) if count > 1 else count} {noun}{'' if count == 1 else 's'}"


def _listing(names: Iterable[str]) -> str:
    """``add, two muls and relu``; the first few of many."""
    counts = Counter(names)
    said = [n if c == 1 else f"{_number(c)} {_plural(n)}" for n, c in counts.items()]
    if len(said) > _LISTED + 1:
        said = [*said[:_LISTED], f"{sum([*counts.values()][_LISTED:])} more"]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}" if said else ""


def _is_view(name: str, rows: Collection[Row]) -> bool:
    return any(r.op.family is Family.VIEW for r in rows if _name(r) == name)


def _why_nothing(removed: Collection[Row], is_one: bool, kept: Row) -> str:
    """The reason why what was removed computed nothing new."""
    it = "it" if is_one else "together they"
    if all(isinstance(r.op, Identity) for r in removed):
        return f"{it} changed nothing"
    if all(r.op.family is Family.VIEW or r.op.rearranges is not None for r in removed):
        return f"{it} moved nothing"
    return f"{'its' if is_one else 'their'} result is {'its' if is_one else 'their'} operand, {_name(kept)}"


def _attributes(old: Row, new: Row) -> str:
    """The attributes that differ: ``: axes (1,) instead of (-1,)``."""
    if old.op.name != new.op.name:
        return ""
    was, now = old.op.attributes(), new.op.attributes()
    said = [f"{k} {v} instead of {was.get(k)}" for k, v in now.items() if was.get(k) != v]
    return f": {', '.join(said)}" if said else ""


def _inputs(old: Row, new: Row) -> str:
    if old.inputs == new.inputs:
        return "" if old.shape == new.shape else f": {new.shape} instead of {old.shape}"
    return ": it reads other operands"


def _shared(rows: Collection[Row], before: _State) -> str:
    """The change that all rows have in common."""
    pairs = [(before.rows[r.id], r) for r in rows]
    if all(old.inputs != new.inputs for old, new in pairs):
        return "read other operands"
    return "changed shape" if all(old.shape != new.shape for old, new in pairs) else ""
