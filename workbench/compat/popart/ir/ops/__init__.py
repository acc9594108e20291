"""Operations on tensors, by PopART's names."""

from workbench.compat.popart.ir.call_info import SubgraphOpInfo
from workbench.compat.popart.ir.ops import collectives, var_updates
from workbench.compat.popart.ir.ops.calls import call, call_with_info, repeat, repeat_with_info
from workbench.compat.popart.ir.ops.elementwise import (
    add,
    add_,
    cast,
    detach,
    detach_,
    div,
    equal,
    fmod,
    gelu,
    gelu_,
    increment_mod,
    increment_mod_,
    logical_and,
    logical_not,
    logical_or,
    mul,
    negate,
    relu,
    relu_,
    scaled_add,
    scaled_add_,
    softmax,
    sub,
    where,
)  # fmt: skip
from workbench.compat.popart.ir.ops.gathering import (
    dynamic_slice,
    dynamic_update,
    dynamic_update_,
    gather,
    scatter,
    tied_gather,
)  # fmt: skip
from workbench.compat.popart.ir.ops.host import host_load, host_store, init
from workbench.compat.popart.ir.ops.matrix import SerialiseMode, matmul
from workbench.compat.popart.ir.ops.norms import (
    group_norm,
    layer_norm,
    nll_loss_with_softmax_grad,
)
from workbench.compat.popart.ir.ops.placement import io_tile_copy, ipu_copy, print_tensor
from workbench.compat.popart.ir.ops.random import (
    dropout,
    random_normal,
    random_uniform,
    split_random_seed,
)  # fmt: skip
from workbench.compat.popart.ir.ops.reductions import (
    l1,
    l2,
    lamb_square,
    logsum,
    logsumexp,
    max,
    mean,
    median,
    min,
    prod,
    sum,
    sumsquare,
)  # fmt: skip
from workbench.compat.popart.ir.ops.remote import remote_load, remote_load_, remote_store
from workbench.compat.popart.ir.ops.shapes import (
    concat,
    concat_,
    flatten,
    flatten_,
    reshape,
    reshape_,
    slice,
    slice_,
    split,
    squeeze,
    transpose,
    transpose_,
)  # fmt: skip

CallInfo = SubgraphOpInfo

__all__ = [
    "CallInfo", "SerialiseMode", "SubgraphOpInfo", "add", "add_", "call", "call_with_info", "cast",
    "collectives", "concat", "concat_", "detach", "detach_", "div", "dropout", "dynamic_slice",
    "dynamic_update", "dynamic_update_", "equal", "flatten", "flatten_", "fmod", "gather", "gelu", "gelu_",
    "group_norm", "host_load", "host_store", "increment_mod", "increment_mod_", "init", "io_tile_copy",
    "ipu_copy", "l1", "l2", "lamb_square", "layer_norm", "logical_and", "logical_not", "logical_or",
    "logsum", "logsumexp", "matmul", "max", "mean", "median", "min", "mul", "negate",
    "nll_loss_with_softmax_grad", "print_tensor", "prod", "random_normal", "random_uniform", "relu", "relu_",
    "remote_load", "remote_load_", "remote_store", "repeat", "repeat_with_info", "reshape", "reshape_",
    "scaled_add", "scaled_add_", "scatter", "slice", "slice_", "softmax", "split", "split_random_seed",
    "squeeze", "sub", "sum", "sumsquare", "tied_gather", "transpose", "transpose_", "var_updates", "where",
]  # fmt: skip
