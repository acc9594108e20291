"""The reference of operators, made from the declarations: ``python -m tests.pages`` writes docs/operators."""
