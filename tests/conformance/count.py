"""Counts the cases of onnx's backend test suite: ``python -m tests.conformance.count [--only TEXT]``."""

import argparse
import fnmatch
import io
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field

import numpy as np
import onnx.backend.test

from workbench.compat.onnx_backend import WorkbenchBackend


@dataclass
class Counts:
    """What became of the cases of one run."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def cases(target: str = "ref") -> Iterator[tuple[str, str, unittest.TestCase]]:
    """Kind, name and test of every case that a CPU runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = onnx.backend.test.BackendTest(
            WorkbenchBackend, __name__, {"target": target} if target != "ref" else {}
        )
    for kind, group in suite.test_cases.items():
        for name in unittest.TestLoader().getTestCaseNames(group):
            if name.endswith("_cpu"):
                yield kind.removeprefix("OnnxBackend").removesuffix("Test"), name, group(name)


def run(only: str = "", target: str = "ref") -> dict[str, Counts]:
    """Run the cases whose name matches; counts by kind."""
    counts: dict[str, Counts] = {}
    for kind, name, test in cases(target):
        if only and not any(fnmatch.fnmatch(name, f"*{part}*") for part in only.split(",")):
            continue
        found = counts.setdefault(kind, Counts())
        error = outcome(test)
        if error is None:
            found.passed.append(name)
        else:
            found.failed[name] = error
    return counts


def outcome(test: unittest.TestCase) -> str | None:
    """None if a test passes, else what it fails with."""
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            getattr(test, test._testMethodName)()
    except unittest.SkipTest as error:
        return f"skipped: {error}"
    except Exception as error:  # noqa: BLE001  # whatever it fails with is what is counted
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def main() -> int:
    """Print the counts, and what fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--target", default="ref")
    parser.add_argument("--width", type=int, default=300)
    options = parser.parse_args()
    counts = run(options.only, options.target)
    total: Counter[str] = Counter()
    for kind, found in counts.items():
        for name, error in sorted(found.failed.items()):
            print(f"{name}: {error}"[: options.width])
        print(f"{kind}: {len(found.passed)} passed, {len(found.failed)} failed")
        total["passed"] += len(found.passed)
        total["failed"] += len(found.failed)
    print(f"{total['passed']} of {total.total()} cases pass")
    return 0 if not total["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
