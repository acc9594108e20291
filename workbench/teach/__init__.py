"""Exercises that check themselves: predictions, picks in a graph, rules, culprits, goals and costs."""

from workbench.teach.cost import Cost, cost
from workbench.teach.culprit import Culprit
from workbench.teach.exercise import Exercise, Feedback, progress
from workbench.teach.goal import Goal
from workbench.teach.improve import Improve
from workbench.teach.prediction import Choice, Number, Pick, Text
from workbench.teach.rules import WriteRule

__all__ = [
    "Choice",
    "Cost",
    "Culprit",
    "Exercise",
    "Feedback",
    "Goal",
    "Improve",
    "Number",
    "Pick",
    "Text",
    "WriteRule",
    "cost",
    "progress",
]
