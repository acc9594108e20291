"""The command `python -m tests.bench`: measures, prints tables and writes JSON."""

import argparse
import logging
import sys
import traceback
from pathlib import Path
from types import ModuleType

from tests.bench import (
    beside,
    compare_cost,
    compile_time,
    counts,
    gpu_async,
    gpu_attention,
    gpu_compile,
    gpu_kernels,
    gpu_loops,
    gpu_models,
    gpu_networks,
    gpu_products,
    gpu_rows,
    gpu_training,
    gpu_tuning,
    growth,
    import_time,
    memory,
    ours,
    precision_cost,
    recording_cost,
    report,
    run_time,
    serving,
    torch_doors,
    torch_gradients,
    view,
    views,
)
from tests.bench.measure import Outcome

MEASURES: dict[str, ModuleType] = {
    "compile": compile_time,
    "growth": growth,
    "counts": counts,
    "recording": recording_cost,
    "run": run_time,
    "compare": compare_cost,
    "precision": precision_cost,
    "memory": memory,
    "kernels": gpu_kernels,
    "gpu": gpu_models,
    "loops": gpu_loops,
    "gpu-compile": gpu_compile,
    "networks": gpu_networks,
    "tuning": gpu_tuning,
    "training": gpu_training,
    "gradients": torch_gradients,
    "torch": torch_doors,
    "products": gpu_products,
    "rows": gpu_rows,
    "attention": gpu_attention,
    "serving": serving,
    "async": gpu_async,
    "import": import_time,
    "view": view,
    "views": views,
    "beside": beside,
}


def _arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--models", nargs="+", help="only these models")
    parser.add_argument("--seconds", type=float, default=20, help="at most, a model and measure")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--peers", action="store_true", help="time the peers alone")
    parser.add_argument("--strict", action="store_true", help="fail where a claim is not met")
    return parser.parse_args()


def _measure(options: argparse.Namespace) -> list[Outcome]:
    """Every outcome asked for, with a line of progress on standard error for each."""
    outcomes: list[Outcome] = []
    for name in options.only:
        module = MEASURES[name]
        for subject in module.SUBJECTS:
            if options.models and subject not in options.models and len(module.SUBJECTS) > 1:
                continue
            print(f"{name}: {subject}", file=sys.stderr, flush=True)
            outcomes.append(_outcome(module, subject, options))
            report.write(outcomes, options.json)  # what a long run found outlives its failure
    return outcomes


def _outcome(module: ModuleType, subject: str, options: argparse.Namespace) -> Outcome:
    """Runs a measure; a failure is shown and kept, and the others still run."""
    try:
        return module.measure(subject, not options.peers, options.seconds)
    except Exception as error:
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}"
        return Outcome(failures=((f"{module.__name__}: {subject}", text),))


def main() -> int:
    """Runs the measures; 1 where one failed, or a claim is not met under `--strict`."""
    options = _arguments()
    logging.disable(logging.WARNING)
    if not options.peers and not ours.present():
        print("there is no workbench here to measure; --peers times the peers", file=sys.stderr)
        return 2
    outcomes = _measure(options)
    outcomes.append(Outcome(claims=run_time.overall(outcomes)))
    report.write(outcomes, options.json)
    print(report.times([t for o in outcomes for t in o.timings]))
    made = [c for o in outcomes for c in o.claims]
    if made:
        print("\n" + report.claims(made))
    for name, value in (fact for o in outcomes for fact in o.facts):
        print(f"{name}: {value}")
    print(f"\nevery repetition is in {options.json}")
    failures = [failure for o in outcomes for failure in o.failures]
    for where, text in failures:
        print(f"FAILED {where}: {text}")
    return int(bool(failures) or (options.strict and not all(c.met for c in made)))


if __name__ == "__main__":
    sys.exit(main())
