"""The teacher's key of `02-the-ir.ipynb`: for each exercise its right answer, and three wrong ones."""

from typing import Any


def answers(lesson: dict[str, Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The answers by the exercise's name; the lesson's variables are given."""
    text = "x = @param:x -> float_type, {8}\ny = neg(x)\nz = exp(y)\n@return(z)"
    node = {i.name: i for i in lesson["diamond"].main}
    return {
        "computing instructions": (4, [3, 7, "four"]),
        "removing an instruction": (
            "that no instruction uses its value",
            ["that none of its inputs is a parameter", "that no later line assigns to it again", ""],
        ),
        "the last one": (node["mul"], [node["add"], node["exp"], node["sqrt"]]),
        "literals left": (1, [0, 2, 3]),
        "inside the kernel": ("relu", ["add", "pointwise", ""]),
        "written by hand": (
            text,
            [text.replace("neg", "relu"), text.replace("z)", "y)"), text.replace("exp", "log")],
        ),
    }
