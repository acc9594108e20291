"""Places of tensors in memory, and the parts of a program that operations belong to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TensorStorage(Enum):
    """The memory that holds a tensor."""

    OnChip = 0
    OffChip = 1


class ReplicatedTensorSharding(Enum):
    """Whether each replica holds only a part of a tensor."""

    Off = 0
    On = 1


class TileSet(Enum):
    """The tiles of a chip that an operation uses."""

    Compute = 0
    IO = 1
    Undefined = 2


class ExecutionContext(Enum):
    """The part of a program that an operation belongs to."""

    Normal = 0
    AccumulateOuterFragment = 1
    WeightsFromHostFragment = 2
    WeightsToHostFragment = 3
    OptimizerFromHostFragment = 4
    Subgraph = 5


@dataclass(frozen=True)
class TensorLocation:
    """The memory that holds a tensor, and whether replicas share it."""

    storage: TensorStorage = TensorStorage.OnChip
    replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off
