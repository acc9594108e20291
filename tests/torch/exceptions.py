"""Exceptions: core ATen operators whose samples do not all agree with eager, and why."""

EXCEPTIONS = {
    "aten.empty.memory_format": "memory that nothing was written to; the program has zeros",
    "aten.empty_strided": "memory that nothing was written to; the program has zeros",
    "aten.as_strided": "a view beyond the elements of its value is refused, as a value has nothing around it",
    "aten.sort": "PyTorch defines no order of equal elements unless stable=True",
    "aten.topk": "PyTorch defines no order of equal elements",
    "aten.atan2.out": "writes into an argument; functional graphs have none",
    "aten.resize_": "changes the memory of an argument; functional graphs have none",
}
"""The operators, with the reason."""

UNDEFINED = (
    "empty",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_like",
    "empty_permuted",
)
"""PyTorch's operators whose samples have undefined elements."""

TIES = ("sort", "argsort", "topk", "msort", "kthvalue", "mode", "median", "nanmedian")
"""Operators whose samples may have equal elements in any order."""
