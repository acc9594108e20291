"""Irs, graphs, tensors, contexts: names, contents, records, errors."""

# ruff: noqa: ARG005 - formulas take all operands

import gc
from typing import Any

import numpy as np
import pytest

from tests.compat.popart.programs import types
from workbench.compat.popart import ir as pir
from workbench.compat.popart import popart_exception
from workbench.compat.popart.ir import ops, testing
from workbench.compat.popart.ir.ops.checks import check_all
from workbench.compat.popart.ir.random_seed import (
    MAX_UINT64,
    two_uint32_to_uint64,
    uint64_to_two_uint32,
)
from workbench.compat.popart.ir.tensors import StreamTensor

ByRef: Any = pir.TensorByRef


@pytest.fixture
def ir() -> pir.Ir:
    """An empty Ir."""
    return pir.Ir()


def test_irs_differ_and_are_freed(ir: pir.Ir) -> None:
    """Equality, hash, representation, and the weak table of all."""
    other = pir.Ir()
    assert ir != other
    assert len({ir, other, ir}) == 2
    assert repr(ir) == f"Ir[id={ir.id}]"
    assert ir.main_graph() is ir.main_graph()
    with pytest.raises(TypeError, match=r"popart.ir.Ir"):
        assert ir == 1
    key = other.id
    del other
    gc.collect()
    assert key not in pir.Ir._ir_cache
    assert ir.id in pir.Ir._ir_cache
    assert ir.num_host_transfers == 1
    assert ir.replication_factor == 1


def test_names_are_unique_and_scoped(ir: pir.Ir) -> None:
    """A taken name gets a number; subgraphs and name scopes stand before it."""
    with ir.main_graph():
        first, second, plain = (
            pir.variable([1], name="bob"),
            pir.variable(1, name="bob"),
            pir.constant(1),
        )
        with pir.name_scope("outer"), pir.name_scope("inner"):
            scoped = pir.variable(1, name="x")
            made = scoped + 1
        graph = ir.create_empty_graph("layer")
        with graph:
            inner = pir.subgraph_input((2,), pir.float16, "x")
    assert first.id == "bob"
    assert second.id.startswith("bob__t")
    assert plain.id == "t"
    assert scoped.name == "outer/inner/x"
    assert made.producer is not None
    assert made.producer.name == "outer/inner/add"
    assert (inner.id, inner.name, inner.scope) == ("layer_subgraph(0)/x", "x", "layer_subgraph(0)")
    assert repr(first) == "Tensor[bob popart.ir.dtypes.int32 (1,)]"
    assert repr(graph) == "Graph[id=layer_subgraph(0) name=layer_subgraph(0)]"
    assert ir.main_graph().id == ""
    assert graph.get_main_graph() == ir.main_graph()


def test_a_graph_knows_its_tensors(ir: pir.Ir) -> None:
    """Variables, constants, streams, inputs and outputs."""
    with ir.main_graph() as main:
        v, c = pir.variable(1), pir.constant(2.5, name="c")
        stream = pir.h2d_stream((2,), pir.float32)
        graph = ir.create_graph(lambda x: x + 1, v)
    assert main.get_variables() == (v,)
    assert main.get_constants() == (c,)
    assert main.get_tensor(stream.tensor_id()) in main
    assert len(main.get_tensors()) == 3
    assert isinstance(main.get_tensor("h2d_stream"), StreamTensor)
    assert graph.get_input_tensors()[0].name == "x"
    assert len(graph.get_constants()) == 1
    assert v not in graph
    assert graph.get_output_tensors()[0] in graph
    with pytest.raises(TypeError, match=r"popart.ir.Tensor"):
        assert 1 in main
    with pytest.raises(TypeError, match=r"popart.ir.Graph"):
        assert main == 1
    with pytest.raises(ValueError, match=r"No tensor nothing"):
        main.get_tensor("nothing")


@pytest.mark.parametrize("kind", [pir.Graph, pir.Tensor, pir.dtype])
def test_classes_that_factories_make_have_no_constructor(kind: Any) -> None:
    """Their error says so."""
    with pytest.raises((TypeError, RuntimeError), match=r"annot"):
        kind()


def test_a_function_becomes_a_graph_with_its_arguments_as_inputs(ir: pir.Ir) -> None:
    """Tensors, specifications, lists, positional and named rests, defaults; references by annotation."""

    def build(
        a: Any,
        b: list[pir.Tensor],
        _: bool,
        *args: ByRef,
        e: pir.Tensor,
        f: int = 2,
        **named: pir.Tensor,
    ) -> Any:
        total = a + f
        for t in [*b, *args, e, *named.values()]:
            total += t
        return [total, e]

    with ir.main_graph():
        x = pir.variable(1)
        graph = ir.create_graph(build, x.spec, [x, x], True, x, x, e=x, z=x)
        (*_, last) = ops.call(graph, *[x] * 7)
    names = [t.name for t in graph.get_input_tensors()]
    assert names == ["a", "b_0", "b_1", "args_0", "args_1", "e", "z"]
    assert {t.name for t in graph._by_ref_inputs} == {"args_0", "args_1"}
    assert graph.name.endswith("with_its_arguments_as_inputs.build_subgraph(0)")
    assert len(graph.get_output_tensors()) == 2
    assert last.shape == ()


def test_functions_that_do_not_fit_are_refused(ir: pir.Ir) -> None:
    """Signatures, mixed lists, results that are no tensors, no functions."""
    with ir.main_graph():
        x = pir.variable(1)
        for args in ((x,), (x, x, x)):
            with pytest.raises(ValueError, match=r"do not match the signature"):
                ir.create_graph(lambda a, b: a, *args)
        for args in (([x, 5],), ([5, x],)):
            with pytest.raises(TypeError, match=r"all elements must be tensors"):
                ir.create_graph(lambda a: None, *args)
        with pytest.raises(TypeError, match=r"all elements must be tensors"):
            ir.create_graph(lambda *a: None, x, 5)
        with pytest.raises(
            ValueError, match=r"^Output of subgraph must be None, a Tensor or an iterable"
        ):
            ir.create_graph(lambda: True)
        with pytest.raises(
            ValueError, match=r"^Output of subgraph must be None, a Tensor or an iterable"
        ):
            ir.create_graph(lambda a: [a, True], x)
        with pytest.raises(TypeError, match=r"not callable"):
            ir.create_graph(3)  # pyright: ignore[reportArgumentType]
        with pytest.raises(NotImplementedError, match=r"build"):
            ir.create_graph(pir.Module())


def test_what_belongs_into_one_kind_of_graph_is_refused_elsewhere(ir: pir.Ir) -> None:
    """Variables and streams in subgraphs, inputs and outputs in the main graph, nothing without a graph."""
    with pytest.raises(RuntimeError, match=r"main_graph"):
        pir.gcg()
    with ir.main_graph() as main:
        x = pir.variable(1)
        assert pir.gmg() is main
        assert pir.gcg() is main
        with ir.create_empty_graph():
            assert pir.gmg() is main
            assert pir.gcg() is not main
            for make in (lambda: pir.variable(1), lambda: pir.h2d_stream((), pir.float32),
                         lambda: pir.d2h_stream((), pir.float32), lambda: x + 1):  # fmt: skip
                with pytest.raises(ValueError, match=r"raph"):
                    make()
        with pytest.raises(ValueError, match=r"main graph has no inputs"):
            pir.subgraph_input((), pir.float32)
        with pytest.raises(ValueError, match=r"main graph has no outputs"):
            pir.subgraph_output(x)
        with pytest.raises(RuntimeError, match=r"same Ir"), pir.Ir().main_graph():
            pass
        with pytest.raises(ValueError, match=r"without elements"):
            _ = x + []  # noqa: RUF005 - of a tensor


def test_operations_are_stamped_with_their_context(ir: pir.Ir) -> None:
    """IPU, tiles, stage, the user's line, the function that made them."""
    with ir.main_graph() as main:
        x = pir.variable(1.0)
        for what in ("ipu", "tile_set"):
            with pytest.raises(pir.UndefinedValue, match=r"no producer"):
                getattr(x, what)
        with pir.ipu(3) as number, pir.pipeline_stage(2), pir.io_tiles():
            y = x + 1
        z = ops.io_tile_copy(ops.ipu_copy(y, 1))
    op = main.ops()[0]
    assert number == op.ipu == y.ipu == 3
    assert op.tile_set == y.tile_set == "io"
    assert op.pipeline_stage == 2
    assert (z.ipu, z.tile_set) == (0, "io")
    assert main.ops()[1].attributes == {"source": 3, "destination": 1}
    assert op.api == "add"
    assert op.location is not None
    assert op.location.file == __file__
    assert "y = x + 1" in op.location.node.name
    with main, pytest.raises(ValueError, match=r"different IPUs: 3 != 0"):
        ops.add(y, ops.relu(x))
    with main:
        with pir.ipu(None):
            nowhere = ops.relu(x)
        with pytest.raises(ValueError, match=r"`t\[0\]` and `t\[2\]` .* IPUs: 0 != 3"):
            check_all("t", [ops.relu(x), nowhere, y])
    with main, pytest.raises(ValueError, match=r"different tile sets: io != compute"):
        ops.add(z, ops.relu(x))
    with (
        main,
        pytest.raises(ValueError, match=r"^Could not infer the ipu .* Please specify `source`"),
    ):
        x.copy_to_ipu(1)
    with main, pytest.raises(TypeError, match=r"`rhs` is not a Tensor"):
        ops.add(x, 1)  # pyright: ignore[reportArgumentType]
    with main, pytest.raises(popart_exception, match=r"different types"):
        ops.add(x, pir.variable(1))


def test_operations_may_be_on_no_ipu_or_on_several(ir: pir.Ir) -> None:
    """No IPU fits each; a reduction across IPUs gives a tensor on each of them."""
    with ir.main_graph():
        with pir.ipu(None):
            nowhere = pir.variable(1.0) + 1
        with pir.ipu(2):
            there = pir.variable(1.0) + 1
        both = ops.collectives.all_reduce([there, there], [2, 3])
        _ = there + nowhere
        _ = nowhere + both[0]
        assert [t.ipu for t in both] == [2, 3]
        with pytest.raises(pir.UndefinedValue, match=r"on no IPU"):
            _ = nowhere.ipu
        with pytest.raises(ValueError, match=r"^Could not infer the ipu"):
            ops.ipu_copy(nowhere, 1)
        with pytest.raises(ValueError, match=r"different IPUs: 2 != 3"):
            _ = there + both[1]


def test_a_decorated_function_is_the_place_of_its_operations(ir: pir.Ir) -> None:
    """The name, and the line that calls it."""

    @pir.op_debug_context("layer")
    def build(x: pir.Tensor) -> pir.Tensor:
        return ops.relu(x + 1)

    with ir.main_graph() as main:
        build(pir.variable(1.0))
    assert {op.api for op in main.ops()} == {"layer"}
    assert all(
        "build(pir.variable(1.0))" in op.location.node.name for op in main.ops() if op.location
    )


def test_hooks_hear_the_operations_of_their_graph(ir: pir.Ir) -> None:
    """Only of that graph, and until they are removed."""
    heard: list[str] = []
    with ir.main_graph() as main:
        x = pir.variable(1.0)
        handle = main.register_op_created_hook(lambda op: heard.append(op.op_type))
        ir.create_graph(ops.relu, x)
        _ = x + 1
        main.remove_op_created_hook(handle)
        _ = x - 1
    assert heard == ["Add"]
    with pytest.raises(ValueError, match=r"No hook"):
        main.remove_op_created_hook(handle)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (True, None, ["Sub", "Add", "Mul", "Div"]),
        (True, False, ["Sub", "Mul", "Add", "Div"]),
        (False, None, ["Div", "Mul", "Add", "Sub"]),
        (False, True, ["Div", "Add", "Mul", "Sub"]),
    ],
)
def test_sequences_order_operations_and_the_schedule_frees_memory(
    ir: pir.Ir, outer: bool, inner: bool | None, expected: list[str]
) -> None:
    """A block without an order is one unit of the sequence around it; else small results come first."""
    with ir.main_graph() as main:
        small, big = pir.variable(1.0), pir.variable(np.ones((2, 2), np.float32))
        with pir.in_sequence(outer):
            _ = pir.variable(np.ones((3, 3), np.float32)) - 1
            with pir.in_sequence(outer if inner is None else inner):
                _ = big + 1
                _ = pir.variable(np.ones(3, np.float32)) * 1
            _ = small / 1
    order = [op.op_type for op in main.schedule()]
    if inner is True:  # the unit of a sequence inside keeps its order, with others between
        assert [t for t in order if t in ("Add", "Mul")] == ["Add", "Mul"]
    else:
        assert order == expected
    assert types(main) == ["Sub", "Add", "Mul", "Div"]
    with (
        pytest.raises(TypeError, match=r"None cannot be passed to 'in_sequence'. Try False"),
        pir.in_sequence(None),
    ):  # pyright: ignore[reportArgumentType]
        pass


def test_tensors_have_shapes_and_types(ir: pir.Ir) -> None:
    """Downcast data, properties, equality, what they refuse."""
    with ir.main_graph():
        x = pir.variable([[1.0, 2.0], [3.0, 4.0]])
        kept = pir.constant(np.arange(3), downcast=False)
        half = pir.constant(1, pir.float16)
        with pytest.raises(TypeError):
            assert 1 in x
        with pytest.raises(ValueError, match=r"0-d"):
            len(half)
        for key in ("a", True, 1.5, (0, 0, 0)):
            with pytest.raises(TypeError):
                x[key]
    assert (x.dtype, x.shape, x.rank, x.nelms, len(x), x.strides) == (
        pir.float32,
        (2, 2),
        2,
        4,
        2,
        (8, 4),
    )
    assert kept.dtype is pir.int64
    assert half.dtype is pir.float16
    assert x.spec == pir.TensorSpec((2, 2), pir.float32)
    assert x.meta_shape == ()
    assert x == ir.main_graph().get_tensor(x.id)
    assert x != half
    assert x.ir() is ir
    assert x.location_info == pir.TensorLocation()


REFUSED = [
    (lambda x: ops.reshape(x, (0, 6)), "^Invalid shape value in reshape"),
    (lambda x: ops.reshape_(x, (-2, 3)), "^Invalid shape value in reshape"),
    (lambda x: ops.reshape(x, (-1, -1)), "at most one"),
    (lambda x: ops.reshape(x, (4,)), "which has 6 elements"),
    (lambda x: ops.squeeze(x, [0, 0]), "duplicates"),
    (lambda x: ops.squeeze(x, [2]), "out of range"),
    (lambda x: ops.squeeze(x, [0]), "expected 1"),
    (lambda x: ops.slice(x, [1], [1, 2]), "lists of one length"),
    (lambda x: ops.slice_(x, 0, 2, 2), "step 2"),
    (lambda x: ops.split(x, 4, 1), "evenly divide"),
    (lambda x: ops.transpose(x, (0, 0)), "each of the axes once"),
    (lambda x: ops.transpose(x, (5, 4)), r"^Values in permutation must be less than .*rank 2.*\(5, 4\)"),
    (lambda x: ops.matmul(x, x.T, partials_type=pir.int32), "partials_type must be"),
    (lambda x: ops.scaled_add(x, x[0]), "equal shapes"),
    (lambda x: ops.group_norm(x, x[0], x[0], 2), "2 groups divide"),
    (lambda x: ops.dropout(x, x, 0.5), "shape \\(2,\\) and dtype uint32"),
    (ops.split_random_seed, "shape \\(2,\\) and dtype uint32"),
    (lambda x: ops.host_store(pir.d2h_stream((3,), pir.float32), x), "shapes of stream and tensor"),
    (lambda x: ops.host_store(pir.d2h_stream((2, 3), pir.int32), x), "dtypes of stream and tensor"),
    (lambda x: ops.remote_store(pir.remote_buffer((3,), pir.float32, 1), 0, x), "does not match buffer"),
    (lambda x: ops.remote_load(pir.remote_buffer((3,), pir.float32, 1), 1), "expected 0 to 0"),
    (lambda x: pir.remote_buffer((), pir.float32, 0), "^Entries must be a non-zero, positive integer. Got 0"),
    (lambda x: ops.collectives.replicated_all_reduce(x, "sum"), "Invalid op"),
    (lambda x: ops.collectives.all_reduce([x, x], [0]), "number of IPUs"),
    (lambda x: ops.var_updates.adam_updater(x, x, time_step=x, beta1=1), "^Bias correction requires both"),
    (lambda x: ops.var_updates.adam_updater(x, x, beta1=1, beta2=1), "requires time_step"),
    (lambda x: ops.var_updates.lamb_updater(x, x, None, x, weight_decay=x), "^Weight decay requires weight"),
    (lambda x: ops.var_updates.adamax_updater(x, x), "^AdaMax requires time_step not None"),
    (lambda x: ops.dynamic_slice(x, pir.constant([0]), [0, 1], [1, 1], True), "as many of each"),
    (lambda x: pir.remote_replica_sharded_variable(x, pir.remote_buffer((3,), x.dtype, 1), 0), "replicated"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "match"), REFUSED)
def test_arguments_that_do_not_fit_are_refused(ir: pir.Ir, build: Any, match: str) -> None:
    """The error comes as the operation is made."""
    with ir.main_graph(), pytest.raises(ValueError, match=match):
        build(pir.variable(np.ones((2, 3), np.float32)))


def test_shapes_that_do_not_fit_are_popart_exceptions(ir: pir.Ir) -> None:
    """The core's shape rule is the reason."""
    with ir.main_graph():
        x = pir.variable(np.ones((2, 3), np.float32))
        for build in (lambda: x @ x, lambda: x + x.T, lambda: ops.gather(x, x),
                      lambda: ops.concat([x, x[:, :2]])):  # fmt: skip
            with pytest.raises(popart_exception, match=r"Tensor\["):
                build()
        with pytest.raises(popart_exception, match=r"add up"):
            ops.split(x, [1, 1], 1)
        assert ops.slice(x, axis=0) is x


def test_types_have_popart_names() -> None:
    """From names, Python's and NumPy's types; their properties."""
    dtype = pir.dtype
    assert [dtype.as_dtype(t) for t in ("half", float, int, bool, np.uint8, np.zeros(1, np.int16))] == [
        pir.float16, pir.float32, pir.int64, pir.bool, pir.uint8, pir.int16
    ]  # fmt: skip
    assert repr(pir.int32) == "popart.ir.dtypes.int32"
    assert pir.double is pir.float64
    assert pir.int8.is_int
    assert not pir.bool.is_int
    assert not pir.uint8.is_signed
    assert pir.complex64.is_complex
    assert pir.half.is_floating_point
    assert pir.half.as_numpy() is np.float16
    for unknown in ("text", None, str, object()):
        with pytest.raises(ValueError, match=r"compatible with value: .*, type: <class '\w+'>\.$"):
            dtype.as_dtype(unknown)
    unsigned = testing.get_all_int_dtypes(include_signed=False)
    assert [t for t in testing.get_all_dtypes() if t.is_int and not t.is_signed] == unsigned
    assert pir.bool not in testing.get_all_dtypes()


def test_seeds_are_pairs_drawn_from_one() -> None:
    """Shapes without axes of length 1, and both halves of a number."""
    assert pir.create_seeds(3).shape == (2,)
    assert pir.create_seeds(3, 0, 2, 3, 4).shape == (
        2,
        3,
        4,
        2,
    )
    assert np.array_equal(pir.create_seeds(3, 1), pir.create_seeds(4))
    assert pir.create_seeds(3).dtype == np.uint32
    drawn = np.random.default_rng(3).integers(0, 2**64 - 1, 1, np.uint64, endpoint=True)[0]
    assert two_uint32_to_uint64(*pir.create_seeds(3)) == drawn
    assert uint64_to_two_uint32(2**32 + 5) == (1, 5)
    for refused in (
        lambda: uint64_to_two_uint32(MAX_UINT64 + 1),
        lambda: two_uint32_to_uint64(0, -1),
    ):
        with pytest.raises(ValueError, match=r"outside the range"):
            refused()


def test_remote_buffers_are_numbered_and_fixed(ir: pir.Ir) -> None:
    """Ids from 1; shape and type change by one method only."""
    with ir.main_graph():
        first, second = (pir.remote_buffer((2,), pir.float32, 3) for _ in range(2))
    assert (first.remote_buffer_id, second.remote_buffer_id) == (1, 2)
    for name in ("remote_buffer_id", "tensor_shape", "tensor_dtype"):
        with pytest.raises(AttributeError) as error:
            setattr(first, name, 1)
        assert str(error.value) == "can't set attribute"
    first.set_remote_buffer_info(pir.int32, (4,), 5)
    assert (first.tensor_dtype, first.tensor_shape, first.entries) == (pir.int32, (4,), 5)


def test_streams_that_nothing_uses_are_no_streams_of_a_run(ir: pir.Ir) -> None:
    """Only those that are loaded from or stored to."""
    with ir.main_graph():
        used, _ = (pir.h2d_stream((), pir.float32) for _ in range(2))
        found, _ = (pir.d2h_stream((), pir.float32) for _ in range(2))
        ops.host_store(found, ops.host_load(used))
    assert ir.get_all_h2d_streams() == {used}
    assert ir.get_all_d2h_streams() == {found}
    assert found.tensor_id() == "d2h_stream"
    assert used.spec == pir.TensorSpec((), pir.float32)
