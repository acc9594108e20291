"""Programs that the tests of files write and read."""

import numpy as np

from workbench.compiler.ir.debug_symbols import add_debug_symbols
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape


def branches() -> Program:
    """Two modules that an ``if`` calls, values of the main module captured in both."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (2, 3)))
    condition = main.add_parameter("condition", Shape("bool", (1,)))
    called = []
    for name, op, value in (("then", "add", 1), ("else", "mul", 2)):
        module = program.create_module(name)
        literal = module.add_literal(np.full((2, 3), value, np.float32))
        module.add_return(module.add(op, x, literal))
        called.append(module)
    chosen = main.add("if", condition, modules=called)
    main.add_return(main.add("get_tuple_elem", chosen, index=0))
    return program


def strided() -> Program:
    """Literals that are transposed, broadcast, of one element, empty, and of every type."""
    program = Program()
    main = program.main
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    kept = [main.add_literal(grid.T), main.add_literal(np.float32(3))]
    kept += [main.add_literal(np.broadcast_to(np.float32([1, 2, 3]), (4, 3)))]
    kept += [main.add_literal(np.zeros((0, 3), np.int64))]
    types = [t for t in DType if t not in (DType.TUPLE, DType.FP4X2)]
    kept += [main.add_literal(np.arange(3).astype(t.numpy)) for t in types]
    main.add_return(*kept)
    return program


def attributes() -> Program:
    """Operations with attributes of every kind."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (1, 3, 8, 8)))
    pooled = main.add("pooling", x, mode="lpnorm", lengths=[2, 2], lp_order=3)
    padded = main.add("pad", x, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=float("-inf"))
    turned = main.add("convert", x, target_type=DType.HALF)
    spaced = main.add("leaky_relu", x, alpha=0.1)
    given = main.add("allocate", shape=Shape("int8", (2, 2), (1, 2)))
    main.add_return(pooled, padded, turned, spaced, given)
    return program


def ranges() -> Program:
    """A dimension that is a range with a name and best lengths."""
    program = Program("ranges.onnx")
    dims = [Dim(1, 8, (2, 4), "batch"), 3]
    x = program.main.add_parameter("x", Shape.dynamic(DType.FLOAT, dims))
    program.main.add_return(program.main.add("relu", x))
    program.output_names = ("y",)
    return program


def symbols() -> Program:
    """Two instructions with debug symbols."""
    program = Program()
    main = program.main
    x = main.add_parameter("x", Shape("float", (2, 3)))
    y = main.add_parameter("y", Shape("float", (2, 3)))
    total = main.add("add", x, y)
    add_debug_symbols(total, ["onnx:Add_1", "onnx:Add_0"])
    result = main.add("relu", total)
    add_debug_symbols(result, ["onnx:Relu_0"])
    main.add_return(result)
    return program


EXAMPLES = [branches, strided, attributes, ranges, symbols]


def expect_same(program: Program, other: Program) -> None:
    """Raise an AssertionError unless the programs are equal in all but ids."""
    assert str(other) == str(program)
    assert list(other.parameters.items()) == list(program.parameters.items())
    for name in ("name", "output_names", "targets", "source_nodes"):
        assert getattr(other, name) == getattr(program, name)
    assert {m.name: m.bypass for m in other.modules.values()} == {
        m.name: m.bypass for m in program.modules.values()
    }
    for module in program.modules.values():
        for a, b in zip(module, other.modules[module.name], strict=True):
            assert (a.op, a.shape, a.sources, a.symbols, a.target_id) == (
                b.op,
                b.shape,
                b.sources,
                b.symbols,
                b.target_id,
            )
            if a.shape.dims is not None:
                assert [d.name for d in a.shape.dims] == [d.name for d in b.shape.dims]
            if a.literal is not None:
                assert b.literal is not None
                assert a.literal.same_as(b.literal)
