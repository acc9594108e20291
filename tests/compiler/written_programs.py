"""Small programs that several tests look at from different sides."""

from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape

FUSED = """\
module: "main"
z = @param:z -> float_type, {2, 3}, {3, 1}
y = @param:y -> float_type, {2, 3}, {3, 1}
x = @param:x -> float_type, {2, 3}, {3, 1}
@3 = pointwise(x,y,z), [main:pointwise0] -> float_type, {2, 3}, {3, 1}
@4 = @return(@3)

module: "main:pointwise0"
main:pointwise0:x2 = @param:x2 -> float_type, {1}, {0}
main:pointwise0:x1 = @param:x1 -> float_type, {1}, {0}
main:pointwise0:x0 = @param:x0 -> float_type, {1}, {0}
main:pointwise0:@3 = add(main:pointwise0:x0,main:pointwise0:x1) -> float_type, {1}, {0}
main:pointwise0:@4 = add(main:pointwise0:@3,main:pointwise0:x2) -> float_type, {1}, {0}
main:pointwise0:@5 = @return(main:pointwise0:@4)

"""
"""Two additions as one kernel, in MIGraphX's printed form."""


def negated_or_clipped() -> Program:
    """``neg(x)`` in the branch ``yes`` or ``relu(x)`` in ``no``, by the parameter ``condition``."""
    program = Program()
    main = program.main
    condition = main.add_parameter("condition", Shape("bool", [1]))
    x = main.add_parameter("x", Shape("float", [2]))
    branches = [program.create_module(name) for name in ("yes", "no")]
    for module, op in zip(branches, ("neg", "relu"), strict=True):
        module.add_return(module.add(op, x))
    chosen = main.add("if", condition, modules=branches)
    main.add_return(main.add("get_tuple_elem", chosen, index=0))
    return program
