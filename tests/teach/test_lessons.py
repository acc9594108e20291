"""The lessons: each runs, each exercise is solved by the teacher's key, and refuses three wrong answers."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from workbench.teach import Exercise

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
KEYS = sorted((NOTEBOOKS / "keys").glob("key_*.py"))


@pytest.mark.parametrize("path", KEYS, ids=lambda p: p.stem)
def test_a_key_solves_each_exercise_and_three_wrong_answers_do_not(path: Path):
    (source,) = NOTEBOOKS.glob(f"{path.stem.removeprefix('key_')}-*.py")
    lesson = runpy.run_path(str(source))
    exercises = {e.name: e for e in lesson.values() if isinstance(e, Exercise)}
    answers = runpy.run_path(str(path))["answers"]
    key: dict[str, tuple[Any, list[Any]]] = answers(lesson)
    assert set(key) == set(exercises)
    for name, (right, wrong) in key.items():
        exercise = exercises[name]
        assert not exercise.solved, name
        assert len(wrong) == 3
        assert [bool(exercise.answer(given)) for given in wrong] == [False] * 3, name
        assert all(found.message for found in exercise.attempts), name
        assert exercise.answer(right), (name, exercise.attempts[-1])


def test_each_lesson_with_exercises_has_a_key():
    taught = [p.name for p in NOTEBOOKS.glob("*.py") if "teach." in p.read_text(encoding="utf-8")]
    assert sorted(name.partition("-")[0] for name in taught) == [p.stem[4:] for p in KEYS]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_holds_no_output_and_is_short(path: Path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    assert len(cells) <= 40
    assert sum(cell["cell_type"] == "code" for cell in cells) <= 25
