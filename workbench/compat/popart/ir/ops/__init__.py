"""Operations on tensors, by PopART's names."""

from workbench.compat.popart.ir.ops.elementwise import (
    add, add_, cast, detach, detach_, div, equal, fmod, gelu, gelu_, increment_mod, increment_mod_,
    logical_and, logical_not, logical_or, mul, negate, relu, relu_, scaled_add, scaled_add_, softmax,
    sub, where,
)  # fmt: skip
from workbench.compat.popart.ir.ops.host import host_load, host_store, init
from workbench.compat.popart.ir.ops.matrix import SerialiseMode, matmul
from workbench.compat.popart.ir.ops.reductions import (
    l1, l2, lamb_square, logsum, logsumexp, max, mean, median, min, prod, sum, sumsquare,
)  # fmt: skip
from workbench.compat.popart.ir.ops.shapes import (
    concat, concat_, flatten, flatten_, reshape, reshape_, slice, slice_, split, squeeze, transpose,
    transpose_,
)  # fmt: skip
