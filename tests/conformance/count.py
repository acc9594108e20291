"""Counts the cases of onnx's backend test suite that pass: ``python -m tests.conformance.count``.

``--only resize,pool`` runs the cases whose names hold one of these texts and prints what fails;
``--write PATH`` counts all, on three targets and with onnx's ReferenceEvaluator, into a page.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnx

from tests.conformance.suite import (
    ReferenceBackend,
    WatchedBackend,
    cases,
    is_training,
    known_failures,
    models,
    outcome,
    uses_strings,
)
from tests.onnx import dynamic

REASONS = {
    "strings": "string tensors, which the workbench does not have",
    "training": "operators of the training domain",
    "reference": "fails with onnx's own ReferenceEvaluator, too",
}
COLUMNS = ("all", "ref", "cpu", "gpu", "reference")
Outcomes = dict[str, dict[str, str | None]]
"""What became of each case, by kind and name; None passed."""


def run(backend: type, only: str = "", **options: Any) -> tuple[Outcomes, Counter[str]]:
    """Run the cases whose name matches; outcomes, and how often programs were made at the first run."""
    found: Outcomes = {}
    made: Counter[str] = Counter()
    parts = only.split(",")
    for case in cases(backend, **options):
        if not any(part in case.name for part in parts):
            continue
        result = outcome(case)
        found.setdefault(case.kind, {})[case.name] = result
        last = WatchedBackend.last
        if result is None and backend is WatchedBackend and last is not None:
            made["values"] += bool(last.fixed)
            made["lengths"] += last.is_open and not last.fixed
    return found, made


def is_numeric(name: str) -> bool:
    """Whether a case has neither strings nor operators for training."""
    model = models().get(name)
    return model is None or not (uses_strings(model) or is_training(model))


def passed(found: dict[str, str | None], numeric: bool = False) -> int:
    """The number of cases that passed."""
    return sum(r is None for n, r in found.items() if not numeric or is_numeric(n))


def page() -> str:
    """The counts of all cases, as Markdown."""
    ref, made = run(WatchedBackend)
    cpu, _ = run(WatchedBackend, target="cpu")
    gpu, _ = run(WatchedBackend, target="gpu")
    reference, _ = run(ReferenceBackend)
    lines = [
        f"# Conformance\n\nonnx's backend test suite, as it comes with onnx {onnx.__version__}, run by",
        "`make conformance` through `workbench.compat.onnx_backend`. Each row is a kind of case.\n",
        "| cases | all | pass on `ref` | on `cpu` | on `gpu` (OpenCL) | with onnx's ReferenceEvaluator |",
        "|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for kind, found in ref.items():
        counts = [len(found), *(passed(o[kind]) for o in (ref, cpu, gpu, reference))]
        total.update(dict(zip(COLUMNS, counts, strict=True)))
        total["numeric"] += sum(map(is_numeric, found))
        total["numeric ref"] += passed(found, numeric=True)
        lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    shown = (f"**{total[key]}**" for key in COLUMNS)
    lines.append(f"| **together** | {' | '.join(shown)} |")
    share = 100 * total["numeric ref"] / total["numeric"]
    summary = (
        f"\nOf the {total['numeric']} cases without strings or training operators, "
        f"{total['numeric ref']} pass on `ref`: {share:.2f} %.\n"
    )
    programs = (
        f"For {made['lengths']} of those that pass, the program is made at the first run, since the model "
        f"leaves lengths of its inputs open; for {made['values']}, since something that has to be known at "
        "import (the axes of a reduction, say) is fed as an input. A run with other lengths or values "
        "makes another program. All others are compiled once, before they are run.\n"
    )
    lines += [
        summary,
        programs,
        "## What does not pass\n",
        *_failures(ref),
        *_failures_of_kernels(gpu),
        *_ranges(),
    ]
    return "\n".join(lines) + "\n"


def _failures(found: Outcomes) -> list[str]:
    reasons = Counter(reason.split(":")[0] for reason in known_failures().values())
    lines = [f"- {reasons[key]} cases: {text}." for key, text in REASONS.items() if reasons[key]]
    failed = {n for group in found.values() for n, r in group.items() if r is not None}
    unknown = sorted(failed - set(known_failures()))
    lines += [f"- `{name}`: not on the list." for name in unknown]
    return [*lines, "\nEach stands with its reason in `tests/conformance/known_failures.txt`."]


def _failures_of_kernels(gpu: Outcomes) -> list[str]:
    failed = {n for group in gpu.values() for n, r in group.items() if r is not None}
    known = known_failures("gpu")
    lines = [
        f"- `{n}`: {known.get(n, 'not on the list')}." for n in sorted(failed - {*known_failures()})
    ]
    return ["\nBesides these, on `gpu`:\n", *lines] if lines else []


def _ranges() -> list[str]:
    """The results of the node cases when their dimensions are ranges."""
    counts, failed = dynamic.counted()
    every = counts["every"] + counts["every, with values"]
    cases = counts.total() + len(failed)
    text = (
        f"\nThe {cases} node cases of numeric tensors, imported with ranges for their dimensions: "
        f"{counts.total()} give the same results, {every} of them with every dimension of every input "
        "a range, the others with those of vectors, or all but the first, fixed. "
        f"{len(failed)} fail; `tests/onnx/test_dynamic_shapes.py` lists them with reasons."
    )
    return ["\n## With dynamic dimensions", text]


def main() -> int:
    """Print the counts, and what fails unexpectedly; 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--target", default="ref")
    parser.add_argument("--strict", action="store_true", help="import as MIGraphX does")
    parser.add_argument("--width", type=int, default=300, help="of the printed lines")
    parser.add_argument("--write", type=Path, help="count all, and write the page")
    options = parser.parse_args()
    if options.write:
        options.write.write_text(text := page(), "utf-8")
        print(text)
        return 0
    found, _ = run(WatchedBackend, options.only, target=options.target, strict=options.strict)
    unexpected = 0
    for kind, results in found.items():
        for name, result in sorted(results.items()):
            if (result is None) == (name in known_failures(options.target)):
                unexpected += 1
                print(f"{name}: {result or 'passes, and is listed as failing'}"[: options.width])
        print(f"{kind}: {passed(results)} of {len(results)} pass")
    together = sum(map(len, found.values()))
    print(f"{sum(map(passed, found.values()))} of {together} cases pass, {unexpected} unexpected")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
