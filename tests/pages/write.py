"""The pages of docs/operators: an index, a page a family, and ONNX's operators."""

import inspect
import re
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path

import onnx

from tests.pages import gradients
from tests.pages.examples import example
from tests.pages.imports import Operator, operators_of, table
from workbench.compiler.ir.operation import Family, Operation, all_operations, attribute_text
from workbench.compiler.text.printing import operator_text

OPERATIONS = all_operations()

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "operators"
ONNX = "onnx.md"
GRADIENTS = "gradients.md"

MADE = "<!-- Made by `python -m tests.pages` from the declarations; an edit here is lost. -->\n\n"
PICTURE = re.compile(r"<!-- picture: (\S+) -->")
"""What stands where a page is built with a drawing of the example."""

FAMILIES = {
    Family.CONTRACTION: "Products of matrices and what is like them: where most of a network's time goes.",
    Family.POINTWISE: "Each element of the result follows from the elements at its own place.",
    Family.REDUCE: "Many elements become one.",
    Family.VIEW: "The same memory, read in another way.",
    Family.MOVEMENT: "Elements are copied to where they are needed.",
    Family.CONTROL: "Which modules run, and how often; and what holds several values.",
    Family.PARAMETER: "What a program is given, and what it gives.",
    Family.KERNEL: "Work that is fused and handed on as one.",
}
WAYS = {"handler": "handler", "function": "its function in ONNX"}


def pages() -> dict[str, str]:
    """Every page, by the name of its file."""
    families = [f for f in Family if _members(f)]
    made = {f"{f.value}.md": _family(f) for f in families}
    made |= {"index.md": _index(families), ONNX: _onnx(), GRADIENTS: gradients.page(_link, _rows)}
    return {name: MADE + text.rstrip("\n") + "\n" for name, text in made.items()}


def drawn(page: str) -> str:
    """A page with the pictures in it; what a built site shows."""

    def picture(found: re.Match[str]) -> str:
        one = example(found[1])
        return "" if one is None else f"<figure>{one.picture()}</figure>\n"

    return PICTURE.sub(picture, page)


def _members(family: Family) -> list[str]:
    return sorted(n for n, op in OPERATIONS.items() if op.family is family and _is_ours(op))


def _is_ours(op: type[Operation]) -> bool:
    """Whether this is no operation that a test or a page of the documentation made up."""
    return op.__module__.startswith("workbench.")


def slugs(names: Sequence[str]) -> dict[str, str]:
    """The anchors of the headings of a page."""
    found: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[^\w-]", "", name.lower())
        taken = [s for s in found.values() if re.fullmatch(rf"{base}(-\d+)?", s)]
        found[name] = f"{base}-{len(taken)}" if taken else base
    return found


def _link(name: str) -> str:
    family = OPERATIONS[name].family
    return f"[`{name}`]({family.value}.md#{slugs(_members(family))[name]})"


def _row(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([_row(*head), "|" + "---|" * len(head), *[_row(*r) for r in rows]]) + "\n"


def meaning(name: str) -> str:
    """The meaning of an operation, in the words of its declaration."""
    text = inspect.cleandoc(OPERATIONS[name].__doc__ or "")
    if not text or text.startswith(f"{OPERATIONS[name].__name__}("):  # made by dataclass
        raise ValueError(f"operation {name!r} has no docstring; its first line says what it means")
    return text


# The index


def _index(families: Sequence[Family]) -> str:
    imported = operators_of()
    rows = [
        (_link(n), family.value, meaning(n).splitlines()[0], _onnx_names(n, imported.get(n, [])))
        for family in families
        for n in _members(family)
    ]
    others = (ONNX.removesuffix(".md"), GRADIENTS.removesuffix(".md"))
    listed = "\n".join([*(f.value for f in families), *others])
    return (
        "# Operations\n\n"
        f"The {len(rows)} operations of programs, with what they mean, what they cost and a worked "
        f"example each; [the operators of ONNX]({ONNX}) are imported to these. A program that has an "
        "operation prints its line as the examples do, and reads it back.\n\n"
        + _rows(("operation", "family", "meaning", "from ONNX"), sorted(rows))
        + f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )


def _onnx_names(op: str, found: Sequence[Operator], most: int = 6) -> str:
    """The names of operators, the one of the same name and the most direct ones first."""

    def distance(one: Operator) -> tuple[object, ...]:
        same = one.name.lower() == op.replace("_", "")
        return not same, one.way != "handler", len(one.operations), one.name

    direct = sorted(found, key=distance)
    names = list(dict.fromkeys(o.name for o in direct))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# A family


def _family(family: Family) -> str:
    members = _members(family)
    sections = [_section(name) for name in members]
    title = f"{family.value.capitalize()} operations"
    return f"# {title}\n\n{FAMILIES[family]}\n\n" + "\n".join(sections)


def _section(name: str) -> str:
    op, one = OPERATIONS[name], example(name)
    parts = [f"## {name}", meaning(name).replace("<", "\\<")]
    traits = [op.family.value]
    traits += ["commutative"] if op.commutative else []
    traits += ["takes modules"] if op.takes_modules else []
    shared = "the last input" if op.alias == -1 else f"input {op.alias}"
    traits += [f"shares the memory of {shared}"] if op.alias is not None else []
    traits += ["takes dynamic dimensions"] if op.dynamic else []
    traits += [] if op.context_free else ["equal inputs may give other results"]
    parts.append(f"*{', '.join(traits)}*")
    if one is not None:
        parts.append(f"`{signature(name)}`")
    parts += [p for p in (_attributes(op), _facts(name)) if p]
    if one is not None:
        parts += [f"```text\n{one.text()}\n```", f"<!-- picture: {name} -->"]
    return "\n\n".join(parts) + "\n"


def signature(name: str) -> str:
    """The operation on the operands of its example: types and lens."""
    one = example(name)
    if one is None:
        return name
    found = one.instruction
    operands = ", ".join(_shape(i.shape) for i in found.inputs)
    result = "" if name == "@return" else f" -> {_shape(found.shape)}"
    return f"{operator_text(found)}({operands}){result}"


def _shape(shape: object) -> str:
    """Type and lens: the printed shape without its strides."""
    return re.sub(r"^(\w+, \{[^{}]*\}), \{[^{}]*\}$", r"\1", str(shape))


def _attributes(op: type[Operation]) -> str:
    if not fields(op):
        return ""
    rows = []
    for field in fields(op):
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        shown = "required" if default is MISSING else f"`{attribute_text(default)}`"
        rows.append((f"`{field.name}`", f"`{_type(str(field.type))}`", shown))
    return _rows(("attribute", "type", "default"), rows).rstrip()


def _type(text: str) -> str:
    return {"Ints": "tuple[int, ...]"}.get(text, text)


def _facts(name: str) -> str:
    op, one = OPERATIONS[name], example(name)
    found: list[str] = []
    if op.expression:
        shown = re.sub(r"\{(\d+)\}", r"x\1", op.expression)
        found.append(f"Each element: `{shown}`")
    found.append(f"[Gradient](../gradients.md): {gradients.derivative(name)}")
    cost = one.cost() if one is not None else None
    if cost is not None:
        flops, moved = cost
        found.append(f"Work of the example: {flops:,} operations, {moved:,} bytes moved")
    imported = operators_of().get(name, [])
    if imported:
        found.append(f"[From ONNX]({ONNX}): {_onnx_names(name, imported, 12)}")
    found += differences().get(name, [])
    return "\n".join(f"- {line}" for line in found)


def differences() -> dict[str, list[str]]:
    """The entries of docs/differences.md about operations, by name."""
    found: dict[str, list[str]] = {}
    for row in re.findall(
        r"^\|(.+)\|$", (DOCS / "differences.md").read_text("utf-8"), re.MULTILINE
    ):
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", row)]
        for name in re.findall(r"`([^`]+)`", cells[0]):
            if name in OPERATIONS and len(cells) == 3:
                found.setdefault(name, []).append(_difference(cells))
    return found


def _difference(cells: Sequence[str]) -> str:
    where = re.sub(r"`[^`]+`,? ?", "", cells[0]).strip()
    return f"MIGraphX{', ' + where if where else ''}: {cells[1]}; here: {cells[2]}"


# ONNX


def _onnx() -> str:
    found = table()
    text = (
        "# The operators of ONNX\n\n"
        f"What the importer makes of each operator that ONNX {onnx.__version__} defines, and of some that "
        "others added. Versions are those of the operator set in which the operator was made or changed; "
        "the operations are what its cases are imported to, in onnx's own test suite and in ours.\n\n"
    )
    for domain in sorted({o.domain for o in found.values()}):
        group = [o for o in found.values() if o.domain == domain]
        rows = [_operator(o) for o in group]
        text += f"## {domain or 'ai.onnx'}\n\n"
        head = ("operator", "versions", "imported by", "operations")
        text += _rows(head, rows) + "\n"
    return text


def _operator(one: Operator) -> tuple[str, str, str, str]:
    versions = ", ".join(map(str, one.versions)) or "–"
    if one.deprecated:
        versions += " (deprecated)"
    refused = sum(one.refusals.values())
    why = "; ".join(sorted(one.refusals))
    way = WAYS.get(one.way, "refused: no handler")
    if one.is_refused and one.way:
        way = f"refused: {why}"
    elif one.is_refused and why and not why.startswith("unknown operators"):
        way += f" ({why})"
    elif refused and not one.is_refused:
        way += f"; {refused} of {one.tried} cases refused: {why}"
    names = [n for n in sorted(one.operations) if n in OPERATIONS]
    listed = ", ".join(_link(n) for n in names)
    if not names and not one.is_refused:
        listed = "its input, or a literal" if one.tried else "no case"
    return one.name, versions, way.replace("<", "\\<"), listed
