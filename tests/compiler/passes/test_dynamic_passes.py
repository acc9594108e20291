"""Passes on lengths that a run tells: imported models split into modules of known lengths, and simplified."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.compiler.rule_samples import written_out
from tests.models.small import create
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim
from workbench.compiler.ir.validate import validate
from workbench.compiler.passes.base import pass_named, run_pass
from workbench.compiler.record.recording import Recording
from workbench.compiler.run.reference import run
from workbench.compiler.text.printing import parse

RANGE = Dim(1, 3)
OPENED: dict[str, dict[str, list[int | Dim]]] = {
    "encoder": {"input_ids": [RANGE, 12], "attention_mask": [RANGE, 12]},
    "decoder": {"input_ids": [RANGE, 5], "attention_mask": [RANGE, 5]},
    "decoder: sequence": {"input_ids": [2, RANGE], "attention_mask": [2, RANGE]},
    "cnn": {"image": [RANGE, 3, 32, 32]},
    "branches": {"x": [RANGE, 3]},
    "loop": {"x": [RANGE]},
    "loop_stops": {"x": [RANGE]},
    "scan": {"start": [3], "rows": [RANGE, 3]},
    "function": {"x": [RANGE, 8]},
    "external": {"x": [RANGE, 64]},
}
LOOPS = {"loop", "loop_stops"}
STEPS = ["split_single_dyn_dim", "simplify_dyn_ops", "propagate_constant", "simplify_dyn_ops"]


@pytest.fixture(scope="module", params=OPENED)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Program]:
    """The small models with one dimension that is a range."""
    name = request.param.partition(":")[0]
    path = tmp_path_factory.mktemp("models") / f"{name}.onnx"
    create(name, path)
    return name, wb.parse_onnx(path, map_dyn_input_dims=OPENED[request.param])


def sized(program: Program, size: int) -> dict[str, Any]:
    """Inputs in which every range has that length."""
    random = np.random.default_rng(size)
    made: dict[str, Any] = {}
    for name, shape in program.parameters.items():
        dims = shape.dims or ()
        lens = [d.min if d.is_fixed else size for d in dims] or list(shape.lens)
        is_float = shape.type.is_float
        value = random.standard_normal(lens) if is_float else random.integers(0, 2, lens)
        made[name] = value.astype(shape.type.numpy)
    return made


def split(program: Program) -> Program:
    made = program.clone()
    for name in STEPS:
        run_pass(pass_named(name), made)
        validate(made)
    return made


def test_each_length_has_a_module_of_known_lengths(opened: tuple[str, Program]):
    name, program = opened
    made = split(program)
    selected = next(i for i in made.main if i.name == "select_module")
    assert [m.name for m in selected.modules] == ["dim_1", "dim_2", "dim_3"]
    if name not in LOOPS:  # what a loop carries may change its length
        ranges = [i for m in selected.modules for i in m if i.shape.is_dynamic]
        assert ranges == []


def test_it_computes_the_same_at_every_length(opened: tuple[str, Program]):
    _, program = opened
    made, folded = split(program), program.clone()
    run_pass(pass_named("propagate_constant"), folded)  # it rounds constants once
    build = wb.compile(made, "cpu")
    for size in range(RANGE.min, RANGE.max + 1):
        inputs = sized(program, size)
        for one, two, three in zip(
            run(folded, inputs), run(made, inputs), build.run(inputs).outputs, strict=True
        ):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_allclose(one, three, rtol=1e-3, atol=1e-4)


def test_splitting_alone_and_simplifying_alone_change_no_value(opened: tuple[str, Program]):
    _, program = opened
    for name in ("split_single_dyn_dim", "simplify_dyn_ops"):
        made = program.clone()
        run_pass(pass_named(name), made)
        validate(made)
        inputs = sized(program, 2)
        for one, other in zip(run(program, inputs), run(made, inputs), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_length_beyond_the_range_is_refused(opened: tuple[str, Program]):
    _, program = opened
    with pytest.raises(wb.WorkbenchError):
        run(split(program), sized(program, RANGE.max + 1))


# What a run refuses, or has no elements, stays as it is

ANY = "[0..18446744073709551615]"
RESIZE = (
    "resize[scales={},sizes={},nearest_mode=floor,mode=nearest,"
    "coordinate_transformation_mode=asymmetric,cubic_coeff_a=-0.75]"
)
LEFT = [
    (
        "find_broadcast_with_dims_static",
        "do not broadcast",
        """x = @param:x -> float{3, 1, 2}
d = @literal{2, 3, 4, 5} -> int64{4}
y = broadcast_with_dims(x,d) -> dynamic, float_type, {ANY, ANY, ANY, ANY}
r = @return(y)""",
    ),
    (
        "find_resize_static",
        "empty: it cannot be resized to",
        """x = @param:x -> float{0, 2}
d = @literal{1, 2} -> int64{2}
y = RESIZE(x,d) -> dynamic, float_type, {ANY, ANY}
r = @return(y)""",
    ),
    (
        "find_const_alloc_reshapes",
        "a length of 0",
        """x = @param:x -> int32{3, 0}
d = @literal{0, 5} -> int64{2}
a = allocate[shape=nullopt,buf_type=8](d) -> dynamic, int32_type, {ANY, ANY}
y = reshape[dims={}](x,a) -> dynamic, int32_type, {ANY, ANY}
r = @return(y)""",
    ),
    (
        "find_const_alloc_reshapes",
        "with a different number of elements",
        """x = @param:x -> int32{3, 2}
d = @literal{2, 5} -> int64{2}
a = allocate[shape=nullopt,buf_type=8](d) -> dynamic, int32_type, {ANY, ANY}
y = reshape[dims={}](x,a) -> dynamic, int32_type, {ANY, ANY}
r = @return(y)""",
    ),
    (
        "find_const_alloc_fill",
        "too large",
        """v = @literal{3} -> int64_type, {1}, {0}
d = @literal{1000000, 1000000, 1, 1000000} -> int64{4}
a = allocate[shape=nullopt,buf_type=9](d) -> dynamic, int64_type, {ANY, ANY, ANY, ANY}
y = fill(v,a) -> dynamic, int64_type, {ANY, ANY, ANY, ANY}
r = @return(y)""",
    ),
    (
        "find_static_reshape_with_dims",
        "it would fail at run time",
        """x = @param:x -> float{2, 6}
d = @literal{5, -1} -> int64{2}
y = reshape_with_dims[out_dyn_dims={[0..9], [0..9]},allowzero=0](x,d) -> dynamic, float_type, {[0..9], [0..9]}
r = @return(y)""",
    ),
    (
        "find_static_onehot",
        "no elements",
        """v = @literal{0, 1} -> float{2}
i = @param:i -> int64{4}
y = onehot[axis=-1,depth=0](i,v) -> float{4, 0}
r = @return(y)""",
    ),
]


@pytest.mark.parametrize(("rule", "reason", "text"), LEFT, ids=[f"{r}: {n}" for r, n, _ in LEFT])
def test_what_cannot_be_known_is_left_to_the_run(rule: str, reason: str, text: str):
    program = parse(written_out(text.replace("ANY", ANY).replace("RESIZE", RESIZE)))
    before = str(program)
    with Recording(program) as recording:
        run_pass(pass_named("simplify_dyn_ops"), program)
    assert str(program) == before
    assert [m for m in recording.near_misses() if m.rule == rule and reason in m.reason]
