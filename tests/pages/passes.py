"""The page of passes: pipelines, and for each pass its options, its rules with their laws, and a program."""

from dataclasses import fields
from importlib import import_module
from pathlib import Path

from tests.compiler.passes.test_pass_texts import Case, cases
from workbench.compiler.ir.sampling import Edge
from workbench.compiler.passes.base import Pass, Pipeline, RewritePass, all_passes
from workbench.compiler.passes.pipelines import MAKERS, PIPELINES
from workbench.compiler.rewrite import Rule
from workbench.compiler.rewrite.rule import CHANGES

PAGE = Path(__file__).parents[2] / "docs" / "passes.md"
_HEAD = """# Passes

Every pass, with its options, the rules that it applies or the edits that it makes with their laws, and one
program before and after.
`workbench passes` lists them on the command line, `wb.passes()` in Python. Made by `python -m tests.pages`.

"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## Pipelines\n\n", *map(_pipeline, PIPELINES.values())]
    return "".join(parts + [_section(name, kind) for name, kind in all_passes().items()])


def _pipeline(pipeline: Pipeline) -> str:
    said = (MAKERS[pipeline.label].__doc__ or "").strip().split("\n")[0]
    return f"`{pipeline.label}`: {said}\n\n```\n{pipeline.tree()}\n```\n\n"


def _section(name: str, kind: type[Pass]) -> str:
    lines = [f"## {name}\n\n", f"{(kind.__doc__ or '').strip().split(chr(10))[0]}\n\n"]
    options = [f"`{f.name}={f.default!r}`" for f in fields(kind) if f.name != "without"]
    lines += [f"Options: {', '.join(options)}.\n\n"] if options else []
    runs = [p.label for p in PIPELINES.values() if name in p.names()]
    lines += [f"Runs in {', '.join(f'`{r}`' for r in runs)}.\n\n"] if runs else []
    lines += [f"In no target's pipeline by default: {kind.apart}\n\n"] if kind.apart else []
    lines += [f"On its own result: {kind.once}\n\n"] if kind.once else []
    rules = list(kind.rules) if issubclass(kind, RewritePass) else []
    rows = [f"| `{r.name}` | {_code(r.law)}{_exceptions(r)} |\n" for r in rules]
    rows += [f"| `{r.name}` | {_code(r.law)} |\n" for r in _edits(kind)]
    if rows:
        lines += [f"| {'rule' if rules else 'edit'} | law |\n|---|---|\n", *rows, "\n"]
    return "".join([*lines, _example(_shortest(name))])


def _edits(kind: type[Pass]) -> list[Rule]:
    """The edits of a pass that searches for its matches itself, in the order of their names."""
    known = [value for value in vars(import_module(kind.__module__)).values() if callable(value)]
    found = {CHANGES[value].name: CHANGES[value] for value in known if value in CHANGES}
    return [found[name] for name in sorted(found) if not name.startswith("_")]


def _exceptions(rule: Rule) -> str:
    """The edges of types at which a law does not hold."""
    named = [edge.value for edge in Edge if edge in rule.except_at]
    listed = "any edge of a type" if len(named) == len(Edge) else " and ".join(named)
    return f", except at {listed}" if named else ""


def _code(law: str) -> str:
    """A law as it stands: brackets and stars in it mean nothing to Markdown."""
    return "`" + law.replace("|", "\\|").replace("`", "") + "`"


def _shortest(name: str) -> Case:
    """The case with the fewest lines of those on which the pass does something."""
    own = [c for c in cases() if c.pass_name == name]
    active = [c for c in own if "none applies" not in c.rest]
    return min(
        active or own, key=lambda c: len(c.before.splitlines()) + len(_changes(c).splitlines())
    )


def _changes(case: Case) -> str:
    """The text after the program before, without the sentences."""
    changes, _, said = case.rest.partition("\nedits:")
    return f"{changes}\n\n" if said.endswith("\n\n") else changes


def _example(case: Case) -> str:
    options = f", with `{case.options}`" if case.options else ""
    after = case.rest.partition("laws:")[0].removeprefix("after:").strip()
    before = case.before.strip()
    title = case.title[:1].upper() + case.title[1:]
    return f"{title}{options}:\n\n```\n{before}\n```\n\n```\n{after}\n```\n\n"
