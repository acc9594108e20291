"""The contract of kernels: every sample of every operation gives on the device what the reference gives."""

import warnings

import pytest

from tests.compiler.test_operations import SAMPLED
from tests.compiler.variants import cases, computed, expect_close, said
from tests.gpu.harness import run_all
from workbench.gpu.devices.base import Device

ON_HOST: dict[str, str] = {
    "@comment": "marks a place",
    "record_event": "marks a place",
    "set_stream": "marks a place",
    "wait_event": "marks a place",
    "broadcast_with_dims": "lengths that only a run knows",
    "reshape_with_dims": "lengths that only a run knows",
    "pad_by": "lengths that only a run knows",
    "dynamic_range": "lengths that only a run knows",
    "allocate": "one sample has lengths that only a run knows",
    "slice": "some samples have bounds that only a run knows",
    "resize": "one sample has lengths that only a run knows",
    "unique": "the number of results is known to a run alone",
    "scan_slice": "the index is an input",
    "onehot": "one sample has its depth as an input",
    "reduce_sum": "one sample has its axes as an input",
    "reduce_mean": "one sample has its axes as an input",
    "reduce_max": "one sample has its axes as an input",
    "reduce_min": "one sample has its axes as an input",
    "reduce_prod": "one sample has its axes as an input",
    "reduce_all": "one sample has its axes as an input",
    "reduce_any": "one sample has its axes as an input",
    "rnn": "passes rewrite it into products and elementwise work",
    "gru": "passes rewrite it into products and elementwise work",
    "lstm": "passes rewrite it into products and elementwise work",
    "nonmaxsuppression": "each box depends on those before it, and their number on the data",
    "tree_ensemble": "tables of trees",
    "count_ngrams": "text",
    "couple_pairs": "greedy matching, one pair after another",
    "image_decode": "a compressed file",
    "cast_to": "one sample gives a type that kernels do not know",
    "lookup": "one sample looks up text",
}
"""Operations of which some samples, or all, are computed on the host, each with the reason."""


@pytest.mark.parametrize("name", sorted(set(SAMPLED) - {"undefined"}))
def test_kernels_agree_with_the_reference(name: str, device: Device):
    left, uses = 0, cases(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [computed(op, operands) for op, operands in uses]
        ran = list(run_all(uses, device))
    for (op, operands), (values, plan), results in zip(uses, ran, wanted, strict=True):
        left += len(plan.host)
        for a, b in zip(values, results, strict=True):
            expect_close(a, b, a.dtype, said(op, operands))
    assert bool(left) == (name in ON_HOST), f"{name}: the host computes {left} of its samples"
