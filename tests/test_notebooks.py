"""The how-to notebooks run as they stand; lessons have tests of their own."""

import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("differentiate-a-program", ("GeluGrad", "recompute=True")),
        ("train-a-digit-classifier", ("digits are right", "before training")),
        ("a-model-in-production", ("'wrong': 0", "12 runs in 4 streams", "scores/1/model.py")),
    ],
)
def test_a_how_to_runs(name, said, capsys):
    mpl.use("agg")
    runpy.run_path(str(NOTEBOOKS / f"{name}.py"))
    printed = capsys.readouterr().out
    for text in said:
        assert text in printed
    plt.close("all")


def test_recomputing_takes_less_memory(capsys):
    runpy.run_path(str(NOTEBOOKS / "differentiate-a-program.py"))
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("recompute=")]
    kept, again = (float(x.split()[1]) for x in lines)
    assert again < 0.7 * kept
