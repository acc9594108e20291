"""Float arithmetic in a narrower type; MIGraphX calls it quantization to fp16 and bf16."""

from __future__ import annotations

from workbench.compiler.errors import OperationError, ShapeError
from workbench.compiler.ir.builtin import Identity, Return
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.selectors import Selector, select, selectors_of
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ops.control import GetTupleElem
from workbench.compiler.ops.convert import Convert
from workbench.compiler.ops.recurrent import LastState
from workbench.compiler.passes.base import Pass, open_modules, register
from workbench.compiler.passes.precision.eliminate_data_type import names_of, type_text
from workbench.compiler.rewrite import Decline, change

_WIDE = (DType.FLOAT, DType.DOUBLE)


@register
class TruncateFloat(Pass):
    """Compute float and double operations in a narrower type; every result keeps its type.

    Attributes:
        ins_names: Names of the operations to compute in that type, or ``all``.
        float_type: Name of the type to compute in.
        keep: Selectors of the instructions that stay in their type.
    """

    name = "truncate_float"
    once = "conversions stay, and values between them are float, which a second run truncates again"
    apart = "lower precision is the user's choice. Run by `wb.quantize`."
    ins_names: tuple[str, ...] = ("all",)
    float_type: str = "float"
    keep: tuple[Selector, ...] = ()

    def __post_init__(self) -> None:
        """Keep names and selectors as tuples; raise OperationError unless the type is a float."""
        object.__setattr__(self, "keep", selectors_of(self.keep))
        object.__setattr__(self, "ins_names", names_of(self.ins_names))
        object.__setattr__(self, "float_type", type_text(self.float_type))
        type = DType.of(self.float_type)
        if not type.is_float or type is DType.FP4X2:
            found = self.float_type
            raise OperationError(
                f"truncate_float: float_type {found!r}; expected a float type with arithmetic"
            )

    def apply(self, program: Program) -> None:
        """Convert the inputs of each operation, apply it to them, and convert its result back.

        Raises:
            OperationError: A selector chooses nothing.
        """
        target, kept = DType.of(self.float_type), select(program, self.keep)
        for module in open_modules(program):
            for instruction in list(module):
                if instruction.id in kept or program.find(instruction.id) is not instruction:
                    continue
                if self._is_meant(instruction):
                    truncate(instruction, target)

    def _is_meant(self, instruction: Instruction) -> bool:
        name = instruction.op.name
        if isinstance(instruction.op, Return | Convert) or not instruction.inputs:
            return False
        if name not in self.ins_names and "all" not in self.ins_names:
            return False
        return not any(_is_empty(i.shape) for i in (instruction, *instruction.inputs))


def _is_empty(shape: Shape) -> bool:
    """Whether a tensor has no elements, like ``undefined``."""
    return shape.is_tensor and shape.dims is None and not shape.elements


@change
def truncate(instruction: Instruction, target: DType) -> Decline | None:
    """f(x) → convert(f(convert[narrower](x))), rounded"""
    made = _retyped(instruction, target)
    if isinstance(made, str):
        return Decline(made)
    module, program = instruction.module, instruction.module.program
    convert = Convert(target_type=target)
    inputs = [
        module.insert(instruction, convert, i) if i.shape.type in _WIDE else i
        for i in instruction.inputs
    ]
    narrow = module.insert(instruction, instruction.op, *inputs, modules=instruction.modules)
    program.tell_replaced(
        instruction, narrow
    )  # the same value, rounded: compare() measures the difference
    if made.is_tuple:
        for user in instruction.users:
            _take_apart(user, instruction, narrow)
        return None
    for user in instruction.users:
        if isinstance(user.op, LastState):
            _take_state(user, narrow)
    if program.find(instruction.id) is None:  # only its states were used
        return None
    wide = narrow
    if not instruction.modules and instruction.shape.type is not DType.FP4X2:
        wide = module.insert(instruction, Convert(target_type=instruction.shape.type), narrow)
    stand_in(instruction, wide)
    return None


def _retyped(instruction: Instruction, target: DType) -> Shape | str:
    """The shape of an operation on converted inputs, or the reason why it is not converted."""
    op, shape = instruction.op, instruction.shape
    shapes = [
        i.shape.with_type(target) if i.shape.type in _WIDE else i.shape for i in instruction.inputs
    ]
    if instruction.modules and shapes != [i.shape for i in instruction.inputs]:
        return f"{op.name}: its body is written for the types of its inputs"
    if not shape.is_tensor and not shape.is_tuple:
        return f"{op.name}: a {shape.kind} is not converted"
    if isinstance(op, LastState):
        return f"{op.name}: it is converted with the network that it reads, #{instruction.inputs[0].id}"
    rules = instruction.module.program.shape_rules
    try:
        made = op.shape_by(rules, shapes, instruction.modules)
    except ShapeError as error:
        return str(error)
    if shape.is_tuple and not instruction.users:
        return f"{op.name}: its tuple has no users"
    if shape.is_tuple and made != shape and not all(map(_picks, instruction.users)):
        return f"{op.name}: its results are used together"
    return made


def _picks(user: Instruction) -> bool:
    return isinstance(user.op, GetTupleElem)


def _take_apart(user: Instruction, old: Instruction, narrow: Instruction) -> None:
    """Make a user of a tuple read the tuple of narrower values."""
    module = old.module
    if not _picks(user):
        user.module.set_inputs(user, [narrow if i is old else i for i in user.inputs])
        module.prune(old)
        return
    element = module.insert(old, user.op, narrow)
    module.program.tell_replaced(user, element)
    stand_in(user, module.insert(old, Convert(target_type=user.shape.type), element))


def _take_state(user: Instruction, narrow: Instruction) -> None:
    """Read the last state from the narrower network: a converted value does not hold it."""
    module = user.module
    state = module.insert(user, user.op, narrow)
    module.program.tell_replaced(user, state)
    stand_in(user, module.insert(user, Convert(target_type=user.shape.type), state))


def stand_in(old: Instruction, new: Instruction) -> None:
    """Replace an instruction; if it is its module's last, end the module with an identity of the new one.

    ``Module.replace`` would move the new instruction to the end if it can; MIGraphX prints an identity.
    """
    module = old.module
    if old is module.last:
        new = module.insert(None, Identity(), new)
    module.replace(old, new)
