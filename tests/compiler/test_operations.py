"""The contract of operations. A new operation enters by being registered; it needs samples."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest

import workbench.compiler.ops  # noqa: F401  # registers every operation
from tests.compiler.expressions import evaluate
from workbench.compiler.argument import Argument
from workbench.compiler.dtypes import DType
from workbench.compiler.errors import ShapeError
from workbench.compiler.operation import OPERATIONS, Operation, Sample, make
from workbench.compiler.program import Program
from workbench.compiler.shape import Shape

# Markers without work of their own, and operators that are unknown by definition.
BUILTIN = {"@param", "@literal", "@return", "@outline", "undefined", "identity", "unknown:"}
# Their inputs are modules or tuples: test_module_operations.py has programs for each.
WITH_MODULES = {n for n, op in OPERATIONS.items() if op.takes_modules} | {"get_tuple_elem"}
# Their input is a network, not an array of any origin: test_recurrent.py has programs for each.
OF_NETWORKS = {"rnn_last_hs_output", "rnn_last_cell_output"}
SAMPLED = sorted(set(OPERATIONS) - BUILTIN - WITH_MODULES - OF_NETWORKS)
POINTWISE = [name for name in SAMPLED if OPERATIONS[name].pointwise]
COMMUTATIVE = {"add", "mul", "max", "min", "equal", "bitwise_and"}
# These read bits, so their meaning changes with the type.
BITS = {"bit_cast", "pack_fp4", "unpack_fp4"}
VARIADIC = {"concat", "multibroadcast"}

every_operation = pytest.mark.parametrize("name", sorted(OPERATIONS))
every_sampled = pytest.mark.parametrize("name", SAMPLED)
every_pointwise = pytest.mark.parametrize("name", POINTWISE)


def samples(name: str) -> list[Sample]:
    found = list(OPERATIONS[name].samples())
    assert found, f"{name} has no samples; give the class a samples() method"
    return found


def shapes(operands: Any) -> list[Shape]:
    return [Argument.of(x).shape for x in operands]


def said(op: Operation, operands: Any) -> str:
    return f"{op}({', '.join(f'{x.dtype}{list(x.shape)}' for x in operands)})"


def parts(value: Any) -> list[np.ndarray]:
    return [p for v in value for p in parts(v)] if isinstance(value, tuple) else [value]


def computed(op: Operation, operands: Any) -> list[np.ndarray]:
    """The results; operands may not be written to, and no warning may leak."""
    inputs = [x.view() for x in operands]
    for x in inputs:
        x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return parts(op.normalized(shapes(inputs)).compute(*inputs))


def expect_close(found: np.ndarray, wanted: np.ndarray, type: Any, what: str) -> None:
    """Equal up to a few roundings of ``type``, where the value fits the type."""
    assert found.shape == wanted.shape, what
    kind = DType.of(type)
    if not kind.is_float:
        np.testing.assert_array_equal(found, wanted, what)
        return
    info = float_info(kind.numpy)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        fits = ~(np.abs(b) > float(info.max))
    eps, least = float(info.eps), float(info.smallest_subnormal)
    rtol = max(2 * eps, 1e-5 if eps > 1e-10 else 1e-12)
    np.testing.assert_allclose(a[fits], b[fits], rtol, max(rtol, least), err_msg=what)


def float_info(dtype: np.dtype) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dtype)


def as_float64(operands: Any) -> list[np.ndarray]:
    return [x.astype(np.float64) if DType.of(x.dtype).is_float else x for x in operands]


def strided(x: np.ndarray) -> np.ndarray:
    """The same values with a gap after each."""
    return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x


@every_operation
def test_it_is_described_and_its_attributes_are_a_value(name: str):
    cls = OPERATIONS[name]
    assert cls.__doc__
    assert not cls.__doc__.startswith(f"{cls.__name__}("), f"{cls.__name__} has no docstring"
    assert cls.name == name
    op = cls()
    assert hash(op) == hash(cls())
    assert op == make(name, **op.attributes())
    for field in dataclasses.fields(cls):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(op, field.name, getattr(op, field.name))


@every_sampled
def test_the_shape_rule_agrees_with_the_value(name: str):
    for op, operands in samples(name):
        shape = op.normalized(shapes(operands)).compute_shape(shapes(operands))
        results = computed(op, operands)
        for one, result in zip(shape.subs or [shape], results, strict=True):
            assert isinstance(result, np.ndarray), said(op, operands)
            assert result.dtype == one.type.numpy, said(op, operands)
            if one.dims is None:
                assert result.shape == one.lens, said(op, operands)
            else:
                assert len(one.dims) == result.ndim, said(op, operands)
                fits = [d.min <= n <= d.max for d, n in zip(one.dims, result.shape, strict=True)]
                assert all(fits), said(op, operands)


@every_sampled
def test_it_prints_and_parses_back(name: str):
    from workbench.compiler.text import parse, to_text

    for op, operands in samples(name):
        program = Program()
        found = [program.main.add_parameter(f"x{i}", s) for i, s in enumerate(shapes(operands))]
        program.main.add_return(program.main.add(op, *found))
        printed = to_text(program)
        assert to_text(parse(printed)) == printed


@every_sampled
def test_float64_operands_give_close_float64_results(name: str):
    for op, operands in samples(name) if name not in BITS else ():
        if not operands:
            continue
        narrow = computed(op, operands)
        wide = computed(op.widened(), as_float64(operands))
        for a, b in zip(narrow, wide, strict=True):
            if DType.of(a.dtype).is_float:
                assert b.dtype == np.float64, said(op, operands)
            else:
                assert b.dtype == a.dtype, said(op, operands)
            expect_close(a, b, a.dtype, said(op, operands))


@every_sampled
def test_strides_do_not_change_values(name: str):
    for op, operands in samples(name):
        wanted = computed(op, [np.ascontiguousarray(x).reshape(x.shape) for x in operands])
        for variant in (operands, [strided(x) for x in operands]):
            for a, b in zip(computed(op, variant), wanted, strict=True):
                expect_close(a, b, a.dtype, said(op, operands))


@every_sampled
def test_a_wrong_number_of_inputs_is_refused(name: str):
    op, operands = samples(name)[0]
    for wrong in ([], [shapes(operands)[0]] * 9 if operands else [Shape()] * 9):
        if len(wrong) == len(operands) or (wrong and name in VARIADIC):
            continue
        with pytest.raises(ShapeError, match=name.removesuffix(":")):
            op.compute_shape(wrong)


@every_sampled
def test_work_is_counted(name: str):
    for op, operands in samples(name):
        inputs = shapes(operands)
        shape = op.normalized(inputs).compute_shape(inputs)
        if not shape.is_dynamic and not any(s.is_dynamic for s in shape.subs or ()):
            flops, moved = op.flops(inputs, shape), op.bytes(inputs, shape)
            assert isinstance(flops, int)
            assert isinstance(moved, int)
            assert flops >= 0
            assert moved >= 0


@every_pointwise
def test_its_expression_computes_the_same(name: str):
    assert OPERATIONS[name].expression, f"{name} is pointwise and has no expression"
    tried = 0
    for op, operands in samples(name):
        wanted = computed(op, operands)[0]
        if not _is_direct(op, operands):
            continue
        tried += 1
        found = evaluate(op, list(operands), wanted.dtype)
        lens = np.broadcast_shapes(*[x.shape for x in operands])
        expect_close(np.broadcast_to(found, lens), wanted, wanted.dtype, said(op, operands))
    assert tried > 3


def _is_direct(op: Operation, operands: Any) -> bool:
    """Whether arithmetic is done in the operands' own type, so that C's rules are NumPy's."""
    types = {DType.of(x.dtype) for x in operands}
    if op.name in {"convert", "bit_cast"}:
        return True
    if op.name in {"quantizelinear", "dequantizelinear"}:
        return DType.HALF not in types
    return types <= {DType.FLOAT, DType.DOUBLE, DType.BOOL} or (
        getattr(op, "exact", False) and not any(t.is_float for t in types)
    )


@every_pointwise
def test_operands_broadcast_inside_fused_bodies(name: str):
    op, operands = samples(name)[0]
    first, *rest = [np.ascontiguousarray(x) for x in operands]
    if rest:
        single = [x.reshape(-1)[:1] for x in rest]
        whole = [np.broadcast_to(x, first.shape) for x in single]
        (a,), (b,) = computed(op, [first, *single]), computed(op, [first, *whole])
        expect_close(a, b, a.dtype, said(op, operands))


@every_pointwise
def test_large_arrays_are_computed_as_small_ones(name: str):
    op, operands = samples(name)[0]
    large = [np.tile(x, (1, 9001)) for x in operands]
    small = computed(op, operands)[0]
    for variant in (large, [*large[:-1], np.broadcast_to(large[-1][:1], large[-1].shape)]):
        first = computed(op, [x[:, : operands[0].shape[1]] for x in variant])[0]
        expect_close(computed(op, variant)[0], np.tile(first, (1, 9001)), small.dtype, name)


@every_operation
def test_commutative_operations_are_those_that_migraphx_names(name: str):
    assert OPERATIONS[name].commutative == (name in COMMUTATIVE)


@pytest.mark.parametrize("name", sorted(COMMUTATIVE))
def test_commutative_operations_commute(name: str):
    for op, (x, y) in samples(name):
        np.testing.assert_array_equal(computed(op, [x, y])[0], computed(op, [y, x])[0])
