"""Explanations of why two instructions were not fused, from the compiled program and its lineage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from workbench.compiler.builds.declined import attention, declined, declined_at, side
from workbench.compiler.builds.not_run import not_decomposed, not_run
from workbench.compiler.errors import GraphError
from workbench.compiler.ir.builtin import Return
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Family
from workbench.compiler.ops.fused import FusedConcat, FusedReduce, Group
from workbench.compiler.ops.movement import Concat, Contiguous
from workbench.compiler.ops.reduce import is_reduction
from workbench.compiler.ops.reshape import Reshape
from workbench.compiler.passes.fuse import conditions as obstacles
from workbench.compiler.passes.fuse import fuse_concat, fuse_gemm_epilogue
from workbench.compiler.passes.fuse.fuse_pointwise import FusePointwise, is_wrappable
from workbench.compiler.passes.fuse.fuse_reduce import FuseReduce
from workbench.compiler.passes.fuse.kernels.pairs import behind_views, is_kernel, listed, who
from workbench.compiler.text.naming import ids_in, resolved
from workbench.compiler.text.printing import names

if TYPE_CHECKING:
    from workbench.compiler.builds.build import Build
    from workbench.compiler.record.edits import Step

Named = Instruction | int | str
"""An instruction of any step, its id, or the name of a node of the model."""


class Reason(NamedTuple):
    """A reason why two instructions are not one kernel, or how they are, and its kind."""

    kind: str
    """``fused``, ``gone``, ``near miss``, ``obstacle`` or ``not run``."""
    text: str


def why_not(build: Build, a: Named, b: Named) -> Reason:
    """Explain why two instructions were not fused into one kernel, or how they were.

    The first of these that exists: a near miss of attention, a near miss of another rule, an obstacle
    in the compiled program, a pass that did not run.

    Raises:
        GraphError: No step had such an instruction, or the model has no such node.
    """
    ours, theirs = (_Place(build, given) for given in (a, b))
    if together := [k for k in ours.kernels if k in theirs.kernels]:
        text = f"they are one kernel: {listed(together)} of the compiled program"
        return Reason("fused", _in_compiled(build, text))
    for place in (ours, theirs):
        if not place.kernels:
            return Reason("gone", place.named_absence())
    sides = [side(build, place.ids) for place in (ours, theirs)]
    text, kind = attention(build, *sides)
    if text:
        return Reason(kind, _in_compiled(build, text))
    text, concerned = declined(build, *({k.id for k in p.kernels} for p in (ours, theirs)))
    if text:
        return Reason("near miss", _in_compiled(build, text + _also_missing(build, concerned)))
    found = _between_any(build, ours.kernels, theirs.kernels)
    return found._replace(text=_in_compiled(build, found.text))


def _between_any(
    build: Build, ours: Sequence[Instruction], theirs: Sequence[Instruction]
) -> Reason:
    pairs = [p for x in ours for y in theirs for p in ((x, y), (y, x))]
    adjacent = [_between(build, x, y) for x, y in pairs if _reads(y, x)]
    if adjacent:
        return Reason(adjacent[0].kind, "; ".join(dict.fromkeys(r.text for r in adjacent)))
    return _apart(build, ours, theirs)


def _in_compiled(build: Build, text: str) -> str:
    """A text with the names that instructions have in the compiled program."""
    return resolved(text, names(build.program)) if ids_in(text) else text


def kernels_of(build: Build, given: Named) -> tuple[list[Instruction], str]:
    """The instructions in open modules that compute an instruction, or the reason why there are none.

    Raises:
        GraphError: No step had such an instruction, or the model has no such node.
    """
    place = _Place(build, given)
    return place.kernels, place.absence


class _Place:
    """The instructions in open modules that compute an instruction, or the reason why there are none."""

    def __init__(self, build: Build, given: Named) -> None:
        self.build = build
        self.ids = _ids(build, given)
        program = build.program
        found = [i for i in map(program.find, self._descendants()) if i is not None]
        kernels = map(_owner, found)
        if not any(_is_read_through(i) for i in self._asked()):
            kernels = map(_behind_shapes, kernels)
        self.kernels = list(dict.fromkeys(kernels))
        computed = [k for k in self.kernels if k.literal is None]
        self.constants = [] if computed else self.kernels
        self.kernels = computed
        self.gone_in: Step | None = None
        self.absence = "" if computed else self._absence()

    def _asked(self) -> list[Instruction]:
        """The instructions of the source that are asked about."""
        return [i for i in map(self.build.source.find, self.ids) if i is not None]

    def _descendants(self) -> list[int]:
        """Ids in the compiled program that an instruction became.

        Those with the same value, else those that do the same on other axes or lens, else all.
        """
        relations = self.build.recording.relations
        same = [e for id in self.ids for e in relations.equals(id) if e in relations.last]
        if same:
            return same
        lineages = [self.build.recording.lineage(id) for id in self.ids]
        made = list(dict.fromkeys(d for one in lineages for d in one.descendants))
        operations, find = {i.name for i in self._asked()}, self.build.program.find
        return [d for d in made if (i := find(d)) is not None and i.name in operations] or made

    def _absence(self) -> str:
        """The reason why no kernel computes an instruction."""
        named = f"#{self.ids[0]}"
        if self.constants:
            return f"{named} is computed before a run: it became {listed(self.constants)}"
        for step in reversed(self.build.recording.steps):
            for edit in reversed(step.edits):
                if self.ids[0] in edit.removed:
                    self.gone_in = step
                    return f"{named} is gone: {edit.rule} of {step.name} removed it: {edit.law}"
        return f"{named} is not in the compiled program"

    def named_absence(self) -> str:
        """The reason in the printed names of the step that removed it, or of the compiled program."""
        text = self.absence if self.gone_in is None else self.gone_in.named(self.absence)
        return resolved(text, names(self.build.program), names(self.build.source))


def _ids(build: Build, given: Named) -> list[int]:
    if isinstance(given, str):
        found = [i.id for i in build.source.instructions if given in i.sources]
        found += [i.id for i in build.program.instructions if given in i.sources and not found]
        if not found:
            raise GraphError(f"no instruction comes from a node {given!r} of the model")
        return sorted(found)
    id = given if isinstance(given, int) else given.id
    build.recording.lineage(id)  # raises if no step had this id
    return [id]


def _owner(instruction: Instruction) -> Instruction:
    """The instruction of an open module that contains an instruction; itself if it is in one."""
    while instruction.module.bypass:
        instruction = instruction.module.callers[0]
    return instruction


def _behind_shapes(instruction: Instruction) -> Instruction:
    """The kernel whose result a view only reads in another shape; the instruction itself if there is none."""
    kernel = behind_views(instruction)
    return instruction if kernel.op.name.startswith("@") else kernel


def _reads(user: Instruction, producer: Instruction) -> bool:
    return any(i is producer or behind_views(i) is producer for i in user.inputs)


# Kernels where one reads the other


def _between(build: Build, producer: Instruction, user: Instruction) -> Reason:
    """The obstacle between a kernel and one that reads it."""
    for one in (producer, user):
        if reason := not_decomposed(build, one):
            return Reason("not run", reason)
        if reason := _alone(one):
            miss = "" if _is_read_through(one) else declined_at(build, one)
            return Reason("obstacle", f"{reason}; {miss}" if miss else reason)
    name, obstacle = _fused_by(producer, user)
    both = listed((producer, user))
    for one in (producer, user):
        for wrapper in _wrapped_by(one):
            if reason := not_run(build, wrapper):
                return Reason("not run", f"{reason}, which fuses kernels such as {both}")
            if miss := declined_at(build, one):
                return Reason("near miss", miss)
    reason = not_run(build, name) if name else ""
    if obstacle:
        also = f"; and {reason}" if reason else _also_missing(build, ids_in(obstacle))
        return Reason("obstacle", obstacle + also)
    if reason:
        return Reason("not run", f"{reason}, which fuses kernels such as {both}")
    now = f"{name} would fuse {who(producer)} and {who(user)} now; later passes made it possible"
    return Reason("obstacle", now)


def _also_missing(build: Build, concerned: Iterable[int]) -> str:
    """The passes that did not run and would have made kernels of instructions that a reason names."""
    found = [i for i in map(build.program.find, concerned) if i is not None]
    missing = filter(None, (not_run(build, name) for name in _wrapped_by(*found)))
    return "".join(f"; and {reason}" for reason in missing)


def _wrapped_by(*kernels: Instruction) -> list[str]:
    """The passes that make kernels of elementwise work and reductions that are not in one."""
    found = [FusePointwise.name for k in kernels if is_wrappable(k) and not is_kernel(k)]
    found += [FuseReduce.name for k in kernels if is_reduction(k) and not is_kernel(k)]
    return list(dict.fromkeys(found))


def _fused_by(producer: Instruction, user: Instruction) -> tuple[str, str]:
    """The pass that fuses such a pair and the obstacle to it; or "" and the reason why no pass does."""
    names = (producer.name, user.name)
    if "concat" in names:
        return "fuse_concat", fuse_concat.obstacle(producer, user)
    products = [
        k for k in (producer, user) if isinstance(k.op, Group) or fuse_gemm_epilogue.is_product(k)
    ]
    if len(products) == 2:
        return "", f"{listed(products)} each hold a product; a kernel has one, but for attention"
    if products:
        other = user if products[0] is producer else producer
        if _reduces(other):
            whole = f"{who(other)} needs whole rows of what it reduces"
            return "", f"{whole}; {who(products[0])} computes and reads parts of them"
        if isinstance(producer.op, Group):
            return "", _after_group(producer, user)
        if isinstance(user.op, Group) and producer.only_user is None:
            return "", _shared(producer, user)
        return "fuse_gemm_epilogue", fuse_gemm_epilogue.obstacle(producer, user)
    reduces = any(map(_reduces, (producer, user)))
    return "fuse_reduce" if reduces else "fuse_pointwise", obstacles.obstacle(producer, user)


def _reduces(instruction: Instruction) -> bool:
    return isinstance(instruction.op, FusedReduce) or is_reduction(instruction)


def _shared(producer: Instruction, user: Instruction) -> str:
    """The other users of a kernel's result."""
    return f"{who(producer)} has other users: {listed(u for u in producer.users if u is not user)}"


def _after_group(group: Instruction, user: Instruction) -> str:
    """The obstacle between a group and the instruction after it."""
    if rest := [u for u in group.users if u is not user]:
        return f"{who(group)} has other users: {listed(rest)}"
    if fuse_gemm_epilogue.is_attention(group):
        return f"{who(group)} is attention, which takes no work after its second product"
    if fuse_gemm_epilogue.is_product(group.modules[0].outputs[0]):
        closed = f"{who(group)} was made before {who(user)} could be part of it"
        return fuse_gemm_epilogue.obstacle(group, user) or closed
    return (
        f"{who(group)} takes the one kernel that follows its product; {who(user)} comes after that"
    )


def _alone(instruction: Instruction) -> str:
    """The reason why nothing fuses with this kind of operation; empty if something does."""
    op = instruction.op
    if isinstance(op, Return):
        return "a program's result is written to memory by the kernel that computes it: nothing follows it"
    if op.name.startswith("@"):
        return f"{who(instruction)} is given, not computed: whatever reads it is a kernel with it as input"
    if is_kernel(instruction) or isinstance(op, Group | Concat | FusedConcat):
        return ""
    if op.pointwise or is_reduction(instruction) or fuse_gemm_epilogue.is_product(instruction):
        return ""
    if _is_read_through(instruction):
        return f"{who(instruction)} only says how memory is read; kernels read through it"
    return (
        f"{who(instruction)} stands alone: kernels are made of elementwise work, reductions, products, "
        "convolutions, concatenations and attention"
    )


def _is_read_through(instruction: Instruction) -> bool:
    given = instruction.op.name.startswith("@")
    return given or instruction.op.family is Family.VIEW or _is_view(instruction)


# Kernels that are not adjacent


def _apart(build: Build, ours: Sequence[Instruction], theirs: Sequence[Instruction]) -> Reason:
    """The obstacle between kernels where neither reads the other."""
    for start, end in ((ours, theirs), (theirs, ours)):
        path = _path(start, set(end))
        if path:
            kernels = [i for i in path[1:-1] if not _is_view(i)]
            if not kernels:
                return _between(build, path[0], path[-1])
            first = _between(build, path[0], kernels[0])
            lies = f"between them lies {listed(kernels)}; of the first two kernels: {first.text}"
            return Reason(first.kind, lies)
    shared = [x for x in _read(ours) if x in _read(theirs)]
    if not shared:
        nothing = "neither needs what the other computes, and they read nothing in common"
        return Reason("obstacle", nothing)
    text = (
        f"neither needs what the other computes; both read {listed(shared)}: only elementwise kernels "
        "that share an input become one (fuse_pointwise with enable_multi_output)"
    )
    return Reason("obstacle", text)


def _is_view(instruction: Instruction) -> bool:
    return instruction.op.alias is not None or isinstance(instruction.op, Contiguous | Reshape)


def _read(kernels: Iterable[Instruction]) -> list[Instruction]:
    return list(dict.fromkeys(behind_views(i) for k in kernels for i in k.inputs))


def _path(start: Sequence[Instruction], end: set[Instruction]) -> list[Instruction]:
    """The shortest path along users from one set of instructions to another; empty if there is none."""
    came: dict[Instruction, Instruction | None] = dict.fromkeys(start)
    layer = list(start)
    while layer:
        following: list[Instruction] = []
        for one in layer:
            for user in map(_owner, one.users):
                if user in came:
                    continue
                came[user] = one
                if user in end:
                    return _walk(came, user)
                following.append(user)
        layer = following
    return []


def _walk(came: dict[Instruction, Instruction | None], last: Instruction) -> list[Instruction]:
    found: list[Instruction] = []
    current: Instruction | None = last
    while current is not None:
        found.insert(0, current)
        current = came[current]
    return found
