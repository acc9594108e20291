"""Operations that combine the tensors of IPUs or of replicas."""

from workbench.compat.popart.ir.ops.collectives.across_ipus import (
    all_reduce,
    all_reduce_identical_grad_inputs,
    all_reduce_identical_inputs,
)
from workbench.compat.popart.ir.ops.collectives.across_replicas import (
    replicated_all_gather,
    replicated_all_reduce,
    replicated_all_reduce_,
    replicated_reduce_scatter,
)
from workbench.compat.popart.ir.ops.collectives.groups import CommGroup, CommGroupType

__all__ = [
    "CommGroup", "CommGroupType", "all_reduce", "all_reduce_identical_grad_inputs",
    "all_reduce_identical_inputs", "replicated_all_gather", "replicated_all_reduce",
    "replicated_all_reduce_", "replicated_reduce_scatter",
]  # fmt: skip
