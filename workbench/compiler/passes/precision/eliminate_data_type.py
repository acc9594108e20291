"""Element types that a device does not support, replaced by one that it does."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.compiler.errors import OperationError, ShapeError
from workbench.compiler.ir.dtypes import FP8, DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.operation import Operation, make
from workbench.compiler.ir.program import Program
from workbench.compiler.ops.control import GetTupleElem, If, Loop, SelectModule
from workbench.compiler.ops.convert import BitCast, Convert
from workbench.compiler.ops.quant import Quantizelinear
from workbench.compiler.ops.resize import RoiAlign
from workbench.compiler.ops.scatter import ScatterNdAdd, ScatterNdMul, ScatterNdNone
from workbench.compiler.ops.select import NonMaxSuppression
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.rewrite import change, law

_NARROW = ("bf16", *(t.name.lower() for t in FP8))
_SKIPPED = (Convert, GetTupleElem, If, Loop, RoiAlign, NonMaxSuppression, ScatterNdAdd, ScatterNdMul,
            ScatterNdNone, SelectModule)  # fmt: skip


@register
class EliminateDataType(Pass):
    """Compute operations in another element type if a device does not support theirs.

    Attributes:
        unsupported_types: Names of the types to replace; by default the floats narrower than half,
            and bfloat16.
        target_type: Name of the type to compute in.
        unsupported_ops: Names of the operations that lack these types, or ``all``: all operations except
            those that read the types as indices or conditions, unless these are named too.
    """

    name = "eliminate_data_type"
    rests = True
    apart = (
        "every target computes in every type. For devices that lack some, by `compile(passes=...)`."
    )
    unsupported_types: tuple[str, ...] = _NARROW
    target_type: str = "float"
    unsupported_ops: tuple[str, ...] = ("all",)

    def __post_init__(self) -> None:
        """Keep names of any collection as a tuple, those of a set in alphabetical order."""
        for key in ("unsupported_types", "unsupported_ops"):
            object.__setattr__(self, key, names_of(getattr(self, key)))

    def apply(self, program: Program) -> None:
        """Convert the inputs of each operation, apply it to them, and convert its results back."""
        types = frozenset(map(DType.of, self.unsupported_types))
        target = DType.of(self.target_type)
        if target in types:
            raise OperationError(
                f"eliminate_data_type: target_type {self.target_type!r} is itself in unsupported_types"
            )
        for module in open_modules(program):
            for instruction in module:
                if self._is_meant(instruction.op) and _has_type(instruction, types):
                    _replace(instruction, types, target)

    def _is_meant(self, op: Operation) -> bool:
        if op.name.startswith("@"):
            return False
        return op.name in self.unsupported_ops or (
            "all" in self.unsupported_ops and not isinstance(op, _SKIPPED)
        )


def names_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or any collection of names, as a tuple; those of a set in alphabetical order."""
    if isinstance(given, str):
        return (given,)
    return tuple(sorted(given) if isinstance(given, set | frozenset) else given)


def type_text(type: object) -> str:
    """The name of an element type in any form; a name is returned unchanged."""
    return type if isinstance(type, str) else DType.of(type).type_name


def _has_type(instruction: Instruction, types: frozenset[DType]) -> bool:
    return any(i.shape.type in types for i in instruction.inputs)


@law
def compute_in_target_type() -> None:
    """f(x) → convert(f(convert(x))), for x of an unsupported type"""


def _replace(instruction: Instruction, types: frozenset[DType], target: DType) -> None:
    op = _general(instruction)
    if reason := _refusal(instruction, op, types, target):
        for listener in instruction.module.program.listeners:
            listener.near_miss(compute_in_target_type, instruction, reason)
    elif instruction.shape.is_tensor:
        compute_in(instruction, op, types, target)
    else:
        compute_tuple_in(instruction, op, types, target)


def _general(instruction: Instruction) -> Operation:
    """The operation that computes the same for any type."""
    op = instruction.op
    if op.contraction is None or not op.contraction.general or len(instruction.inputs) != 2:
        return op
    return make(op.contraction.general, **op.attributes())


def _refusal(
    instruction: Instruction, op: Operation, types: frozenset[DType], target: DType
) -> str:
    """The reason why an instruction cannot compute in another type; empty if it can."""
    if isinstance(op, BitCast | Quantizelinear):  # of converted inputs, other numbers
        return f"{op.name}: its meaning depends on the type of its input"
    if instruction.modules:
        return f"{op.name}: its body is written for the types of its inputs"
    picked = all(isinstance(u.op, GetTupleElem) for u in instruction.users)
    if not instruction.shape.is_tensor and not (instruction.shape.is_tuple and picked):
        return f"{op.name}: its results are used together"
    shapes = [i.shape for i in instruction.inputs]
    converted = [s.with_type(target) if s.type in types else s for s in shapes]
    try:
        op.shape_by(instruction.module.program.shape_rules, converted)
    except ShapeError as error:
        return str(error)
    return ""


def _converted(
    instruction: Instruction, op: Operation, types: frozenset[DType], target: DType
) -> Instruction:
    """The operation on converted inputs, before the instruction."""
    module, convert = instruction.module, Convert(target_type=target)
    inputs = [
        module.insert(instruction, convert, i) if i.shape.type in types else i
        for i in instruction.inputs
    ]
    return module.insert(instruction, op, *inputs)


@change
def compute_in(
    instruction: Instruction, op: Operation, types: frozenset[DType], target: DType
) -> None:
    """f(x) → convert(f(convert(x))), for x of an unsupported type"""
    made, module = _converted(instruction, op, types, target), instruction.module
    back = Convert(target_type=instruction.shape.type)
    module.replace(instruction, module.insert(instruction, back, made))


@change
def compute_tuple_in(
    instruction: Instruction, op: Operation, types: frozenset[DType], target: DType
) -> None:
    """get_tuple_elem(f(x)) → convert(get_tuple_elem(f(convert(x)))), for x of an unsupported type"""
    made, module = _converted(instruction, op, types, target), instruction.module
    for element in instruction.users:
        type = element.shape.type
        value = module.insert(instruction, element.op, made)
        if type in types:
            value = module.insert(instruction, Convert(target_type=type), value)
        module.replace(element, value)
