"""Exercises that check themselves: predictions, picks in a graph, rules, culprits and goals."""

from workbench.teach.culprit import Culprit
from workbench.teach.exercise import Exercise, Feedback, progress
from workbench.teach.goal import Goal
from workbench.teach.prediction import Choice, Number, Pick, Text
from workbench.teach.rules import WriteRule

__all__ = [
    "Choice",
    "Culprit",
    "Exercise",
    "Feedback",
    "Goal",
    "Number",
    "Pick",
    "Text",
    "WriteRule",
    "progress",
]
