"""The answers of why_not for products and concatenations that were not fused with their neighbours."""

import pytest

from workbench.compiler.ir.module import Instruction
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.fuse import fuse_concat, fuse_gemm_epilogue
from workbench.compiler.text.printing import parse

TEXT = """module: "main"
w = @param:w -> float_type, {3, 5}, {5, 1}
x = @param:x -> float_type, {2, 3}, {3, 1}
r = pointwise(x), [main:pointwise0] -> float_type, {2, 3}, {3, 1}
d = dot(r,w) -> float_type, {2, 5}, {5, 1}
e = relu(d)
c = concat[axis=0](r,x) -> float_type, {4, 3}, {3, 1}
n = neg(c)
p = pointwise(d), [main:pointwise1] -> float_type, {2, 5}, {5, 1}
o = @return(p,e,n)

module: "main:pointwise0"
main:pointwise0:x0 = @param:x0 -> float_type, {1}, {0}
main:pointwise0:@1 = abs(main:pointwise0:x0) -> float_type, {1}, {0}
main:pointwise0:@2 = @return(main:pointwise0:@1)

module: "main:pointwise1"
main:pointwise1:x0 = @param:x0 -> float_type, {1}, {0}
main:pointwise1:@1 = exp(main:pointwise1:x0) -> float_type, {1}, {0}
main:pointwise1:@2 = @return(main:pointwise1:@1)
"""


def named(program: Program, name: str, number: int = 0) -> Instruction:
    return [i for i in program.main if i.name == name][number]


@pytest.mark.parametrize(
    ("producer", "user", "reason"),
    [
        (("dot", 0), ("pointwise", 1), "has other users: relu #"),
        (("pointwise", 0), ("dot", 0), "has other users: concat #"),
        (("pointwise", 1), ("dot", 0), "does not read pointwise #"),
        (("dot", 0), ("relu", 0), "is not a pointwise kernel"),
        (("dot", 0), ("pointwise", 0), "does not read dot #"),
        (("relu", 0), ("pointwise", 1), "is not one of dot"),
    ],
)
def test_why_a_product_is_alone(producer, user, reason):
    program = parse(TEXT)
    found = fuse_gemm_epilogue.obstacle(named(program, *producer), named(program, *user))
    assert reason in found


@pytest.mark.parametrize(
    ("producer", "user", "reason"),
    [
        (("pointwise", 0), ("concat", 0), "has other users: dot #"),
        (("concat", 0), ("neg", 0), "are not a concat and its work"),
        (("pointwise", 1), ("concat", 0), "does not use pointwise #"),
    ],
)
def test_why_a_concatenation_is_alone(producer, user, reason):
    program = parse(TEXT)
    found = fuse_concat.obstacle(named(program, *producer), named(program, *user))
    assert reason in found


VIEWED = """module: "main"
v = @param:v -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
k = @param:k -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
q = @param:q -> float_type, {4, 4}, {4, 1}
p = pointwise(q), [main:pointwise0] -> float_type, {4, 4}, {4, 1}
m = multibroadcast[out_lens={1, 2, 4, 4}](p) -> float_type, {1, 2, 4, 4}, {0, 0, 4, 1}
g = group[tag=SOME](m,k), [inner] -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
o = @return(gREST)

module: "inner"
inner:x1 = @param:x1 -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
inner:x0 = @param:x0 -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
inner:s = dot(inner:x0,inner:x1) -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
inner:r = @return(inner:s)

module: "main:pointwise0"
main:pointwise0:x0 = @param:x0 -> float_type, {1}, {0}
main:pointwise0:@1 = abs(main:pointwise0:x0) -> float_type, {1}, {0}
main:pointwise0:@2 = @return(main:pointwise0:@1)
"""


@pytest.mark.parametrize(
    ("tag", "rest", "reason"),
    [
        ("attention", ",m", "multibroadcast #7 has other users: @return #"),
        ("dot", "", "through multibroadcast #7, which stays outside"),
    ],
)
def test_why_work_behind_a_view_is_alone(tag, rest, reason):
    program = parse(VIEWED.replace("SOME", tag).replace("REST", rest))
    found = fuse_gemm_epilogue.obstacle(named(program, "pointwise"), named(program, "group"))
    assert reason in found
