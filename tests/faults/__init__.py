"""Planted faults: real models with one thing wrong each, whose culprit `wb.compare` has to name first.

`fault.py` says what a fault is and judges a report; `changed.py` and `planting.py` plant; a room per kind
has a table of faults; `controls.py` has what must raise no alarm. `python -m tests.faults.count` counts.
"""
