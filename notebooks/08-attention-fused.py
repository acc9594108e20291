# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: -all
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Attention, fused
#
# Attention compares each token of a text with each other. Its scores are a matrix of tokens times tokens, which soon is larger than all inputs
# together. This lesson shows the kernel that never writes that matrix, how it does so, and what keeps the compiler from using it.
#
# About 45 minutes; needs the lessons on fusion, and on reductions.

# %%
import numpy as np
import pandas as pd

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

# %% [markdown]
# ## 1. Three lines
#
# Each of n tokens has a query, a key and a value, of d numbers each. The scores are the products of all queries with all keys; a softmax makes
# weights of them; the result is the weighted sum of the values.

# %%
tokens, depth = 1024, 64
qkv = dict.fromkeys("qkv", (tokens, depth))


def attention(q, k, v):
    """Attention of one head."""
    scores = q @ k.T * depth**-0.5
    weights = scores.softmax(axis=1)
    return weights @ v


program = wb.trace(attention, **qkv)
inputs = sum(shape.bytes for shape in program.parameters.values())
print(f"q, k and v together: {inputs:,} bytes")

# %%
size = teach.Number(
    "How many bytes does the matrix of scores take?",
    truth=lambda: next(i for i in program.main if i.name == "softmax").shape.bytes,
    unit="bytes",
    hints=[
        "It has a row for each query, and a column for each key.",
        "1024 × 1024 floats of 4 bytes",
    ],
    because="That is more than five times q, k and v together, and grows with the square of the tokens.",
    name="bytes of the scores",
)
size

# %% [markdown]
# ## 2. Three compilations
#
# Without fusion, each operation is a kernel. With all fusion but that of attention, the softmax is one kernel between two products. With all of it,
# one kernel is left. Compare bytes and operations.

# %%
pipeline = wb.pipelines()["gpu"]
without = wb.compile(program, passes=pipeline.without("fusion"))
nearly = wb.compile(program, passes=pipeline.without("fuse_attention"))
fused = wb.compile(program, passes=pipeline)


def compared(**builds):
    """The costs of builds, a row each."""
    costs = {name: teach.cost(build) for name, build in builds.items()}
    rows = [(c.kernels, c.bytes / 1e6, c.flops / 1e6, c.flops / c.bytes) for c in costs.values()]
    columns = ["kernels", "MB", "MFLOP", "operations a byte"]
    return pd.DataFrame(rows, index=list(costs), columns=columns).round(1)


compared(no_fusion=without, no_fused_attention=nearly, all_fusion=fused)

# %% [markdown]
# The arithmetic is the same. The fused kernel reads `q`, `k` and `v`, and writes a result of the same size: 4 × 262,144 bytes. Below is the program
# without fusion.

# %%
graph = GraphView(without.program, height=760)

last = teach.Pick(
    "Five results of 1024 × 1024 are written to memory here. Click on the instruction that makes the last.",
    graph,
    truth=lambda: [i.id for i in without.program.main if i.name == "div"],
    explain=lambda _: (
        "Its result is not 1024 × 1024, is a view, or is not the last: follow the edges down."
    ),
    hints=[
        "A multibroadcast is a view: nothing is written.",
        "The second product reads it, and its own result is 1024 × 64.",
    ],
    because="dot, mul, sub, exp and div each write all scores. In the fused kernel none of them does.",
    name="the last large value",
)
last

# %% [markdown]
# ## 3. How can it work?
#
# A softmax needs the maximum and the sum of the whole row. But the kernel never has the whole row: it goes through the keys tile by tile, and keeps
# three things for each query: the largest score so far, the sum so far, the result so far. When a larger score comes, what was added before has
# the wrong factor. This is called the **online softmax**.

# %%
rng = np.random.default_rng(0)
few = {name: rng.standard_normal((64, 16)) * 3 for name in "qkv"}


def by_tiles(scores, v, tile=16):
    """Softmax of the scores times v, a tile of keys at a time. Something is missing."""
    largest = np.full((len(scores), 1), -np.inf)
    total, result = 0.0, 0.0
    for start in range(0, len(v), tile):
        part = scores[:, start : start + tile]
        larger = np.maximum(largest, part.max(axis=1, keepdims=True))
        weights = np.exp(part - larger)
        total = total + weights.sum(axis=1, keepdims=True)
        result = result + weights @ v[start : start + tile]
        largest = larger
    return result / total


def largest_error(function):
    """The largest difference from attention that has whole rows."""
    scores = few["q"] @ few["k"].T / 4
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = weights @ few["v"] / weights.sum(axis=1, keepdims=True)
    return np.abs(function(scores, few["v"]) - wanted).max()


online = teach.Goal(
    "When a larger score comes, total and result have to be corrected. Add that to by_tiles.",
    largest_error,
    1e-9,
    hints=[
        "What was added before was exp(score - largest). It should have been exp(score - larger).",
        "The two differ by a factor, which is the same for the whole row.",
        "factor = np.exp(largest - larger); then total * factor + …, and result * factor + …",
    ],
    because="The first tile is right, too: exp(-infinity) is 0.",
    name="the online softmax",
)
online.answer(by_tiles)

# %% [markdown]
# The compiler's kernel for attention has the same lines, in C. `wb.compile(program, "gpu").kernels()` shows it, if you have a GPU. On a CPU, separate
# kernels are faster, so that `gpu` compiles one kernel there only for few tokens: up to 32,768 scores.
#
# ## 4. More tokens
#
# How do the costs grow?


# %%
def grown(n):
    """The costs for n tokens, without and with fused attention."""
    source = wb.trace(attention, **dict.fromkeys("qkv", (n, depth)))
    plain = teach.cost(wb.compile(source, passes=pipeline.without("fuse_attention")))
    one = teach.cost(wb.compile(source, passes=pipeline))
    return plain.bytes / 1e6, one.bytes / 1e6, one.flops / 1e6


columns = ["MB without", "MB fused", "MFLOP"]
pd.DataFrame({n: grown(n) for n in (256, 512, 1024)}, index=columns).T.round(1)

# %%
twice = teach.Number(
    "From 1,024 to 2,048 tokens: by which factor do the bytes of the fused kernel grow?",
    truth=lambda: grown(2048)[1] / grown(1024)[1],
    hints=["Which values does it read and write? Which of them has n × n elements?"],
    because="The bytes grow with n, the arithmetic with its square: more work for each byte.",
    name="twice the tokens",
)
twice

# %% [markdown]
# ## 5. The second user
#
# Someone wants to see the weights, and returns them as well. Now they have to be in memory, and the pattern does not match.


# %%
def with_weights(q, k, v):
    """Attention, and its weights."""
    weights = (q @ k.T * depth**-0.5).softmax(axis=1)
    return weights @ v, weights


watched = wb.compile(wb.trace(with_weights, **qkv), passes="gpu")
softmax = next(i for i in watched.source.main if i.name == "softmax")
product = next(i for i in reversed(watched.source.main) if i.name == "dot")
print(watched.why_not(softmax, product))
compared(all_fusion=fused, with_weights=watched)

# %%
price = teach.Choice(
    "What does it cost to look at the weights?",
    {
        "one matrix that is written": "More than that: look at the number of kernels.",
        "two kernels, and all traffic of the scores": "Scores and weights are written and read again.",
        "nothing: they are computed anyway": "Computed, but in registers: they never reached memory.",
    },
    truth="two kernels, and all traffic of the scores",
    hints=["Compare the bytes of the two rows in the table."],
    name="the price of looking",
)
price

# %% [markdown]
# So models that are to run fast do not return their weights. `build.lint()` finds such places in a model: the kind is `missed-fusion`.
#
# ## 6. Make it fuse
#
# This model writes its own softmax, and divides late, since the sum is the same for all values. That is less arithmetic. It also is three kernels
# and 14 MB. Which form does the compiler know?


# %%
def by_hand(q, k, v):
    """Attention with a softmax of its own."""
    exps = (q @ k.T * depth**-0.5).exp()
    return (exps @ v) / exps.sum(axis=1, keepdims=True)


fuse = teach.Improve(
    "Write it so that it computes the same with as few bytes as possible.",
    wb.trace(by_hand, **qkv),
    measure=lambda build: teach.cost(build).bytes,
    goal=4 * tokens * depth * 4,
    unit="bytes",
    hints=[
        "teach.cost(fuse.build(by_hand)) lists the kernels. Who are the users of exps?",
        "Divide before the product: then the weights have one user.",
        "Use the softmax of the workbench. It also subtracts the maximum.",
    ],
    because="One kernel; and scores above 88 no longer overflow.",
    name="attention by hand",
)
fuse.answer(by_hand)

# %%
teach.progress()
