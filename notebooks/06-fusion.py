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
# # Fusion, before and after
#
# A kernel reads its inputs from memory, computes, and writes its result back. **Fusion** makes one kernel of several operations, so that what lies
# between them stays in registers. This lesson counts what that saves, shows what fuses, and asks why some of it does not.
#
# About 45 minutes; needs the lessons on the intermediate representation, and on passes and laws.

# %%
import numpy as np

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

# %% [markdown]
# ## 1. Without fusion, an operation is a kernel
#
# Four operations on a matrix of 1,024 × 256 floats. The pipeline `gpu` ends with fusion; without it, each operation becomes a kernel of its own.
# `teach.cost` counts the kernels of a compiled program, the bytes that enter and leave each, and its arithmetic.


# %%
def activation(x, bias):
    """Elementwise work, as it follows a layer of a network."""
    return (x + bias).relu() * 2 - x


program = wb.trace(activation, x=(1024, 256), bias=(256,))
without = wb.pipelines()["gpu"].without("fusion")
plain = wb.compile(program, passes=without)
teach.cost(plain)

# %% [markdown]
# Read the first row. `add` reads `x`, which is 1,024 × 256 × 4 = 1,048,576 bytes, and `bias`, 1,024 bytes. It writes as much as it read of `x`.
# Then `relu` reads all of that again.

# %%
moved = teach.Number(
    "One kernel computes all four operations. How many bytes does it read and write together?",
    truth=lambda: teach.cost(wb.compile(program, passes="gpu")).bytes,
    within=0.01,
    unit="bytes",
    hints=[
        "Which values come from memory? Which value has to be in memory at the end?",
        "It reads x once, although two operations use it.",
        "x and bias are read, the result is written: 1,048,576 + 1,024 + 1,048,576.",
    ],
    because="The three values between the operations never reach memory.",
    name="bytes of one kernel",
)
moved

# %% [markdown]
# ## 2. With fusion
#
# Here is what the compiler makes of it. The explorer opens on the pass that fuses: before on the left, after on the right. The fused kernel opens
# like a folder, and the list has the edits of the pass, one after the other.

# %%
fused = wb.compile(program, passes="gpu")
print("without fusion:", teach.cost(plain))
print("with fusion:   ", teach.cost(fused))
fused.explore(height=560)

# %%
joins = teach.Text(
    "All four operations become one kernel in a single edit. Which rule of fuse_pointwise makes it?",
    truth=lambda: next(
        edit.rule
        for step in fused.recording
        for edit in step.edits
        if step.name.startswith("fuse_pointwise")
    ),
    hints=[
        "The list on the right has each edit of the pass, with its rule.",
        "Its law is g(f(x…), y…) → pointwise(x…, y…): the work of f and g, in one body.",
    ],
    because="With the option stepwise, it makes a kernel of each operation, and three times one of two.",
    name="the rule",
)
joins

# %%
saved = teach.Choice(
    "What did fusion save here?",
    {
        "bytes": "A quarter of the bytes, and the same arithmetic.",
        "arithmetic": "Compare the operations in the two lines above the graph: they are equal.",
        "both": "The four operations are still computed for each element.",
    },
    truth="bytes",
    name="what is saved",
)
saved

# %% [markdown]
# ## 3. What fits into one kernel
#
# - Elementwise operations fuse with each other.
# - A reduction, such as a sum, takes the elementwise work before it, and after it.
# - A matrix product takes the elementwise work after it: its **epilogue**.
#
# Below are two layers of a network. Two kernels come out.

# %%
layers = wb.trace(
    lambda x, w1, b1, w2, b2: ((x @ w1 + b1).relu() @ w2 + b2).tanh(),
    x=(1024, 256), w1=(256, 64), b1=(64,), w2=(64, 16), b2=(16,),
)  # fmt: skip
graph = GraphView(layers, height=520)

second = teach.Pick(
    "Click on the instruction with which the second kernel begins.",
    graph,
    truth=lambda: [i.id for i in layers.main if i.name == "dot"][1:],
    explain=lambda _: (
        "Not that one. Elementwise work that follows a product is the epilogue of its kernel."
    ),
    hints=["A kernel holds one product. What comes between the two products joins the first."],
    because="The kernels are dot · add · relu, and dot · add · tanh.",
    name="the second kernel",
)
second

# %%
teach.cost(wb.compile(layers, passes="gpu"))

# %% [markdown]
# ## 4. Why not?
#
# `build.why_not(a, b)` says why two instructions are not one kernel. Here are three programs with two kernels each.


# %%
def ask(function, first, last, **lens):
    """Why the first instruction of one name and the last of another are two kernels."""
    source = wb.trace(function, **lens)
    build = wb.compile(source, passes="gpu")
    a = next(i for i in source.main if i.name == first)
    b = [i for i in source.main if i.name == last][-1]
    print(f"{first} and {last}, {teach.cost(build).kernels} kernels:\n  {build.why_not(a, b)}")


ask(lambda x, v, w: (x @ v) @ w, "dot", "dot", x=(8, 8), v=(8, 8), w=(8, 8))
ask(lambda x, y: (x.relu(), y.exp()), "relu", "exp", x=(8, 8), y=(8, 8))
ask(
    lambda x: (x - x.mean(axis=0)) / x.max(axis=1, keepdims=True),
    "reduce_mean",
    "reduce_max",
    x=(8, 8),
)

# %% [markdown]
# The third reason: one kernel goes down the columns for its mean, the other along the rows for its maximum. Each work item would need what others
# have not computed yet.

# %%
two_users = teach.Choice(
    "A program returns h = x @ w and also h.relu(). relu is not an epilogue of the product. Why?",
    {
        "h is needed in memory anyway": "It has another user, the end of the program.",
        "relu is not elementwise": "It is: each element of the result needs one element of h.",
        "a product has no epilogue": "It has; see the two layers above.",
        "relu is too cheap to fuse": "Cheap work gains most: its time is that of its memory.",
    },
    truth="h is needed in memory anyway",
    hints=["Run the next cell, which asks the compiler."],
    name="two users",
)
two_users

# %%
ask(lambda x, w: ((x @ w), (x @ w).relu()), "dot", "relu", x=(8, 8), w=(8, 8))

# %% [markdown]
# ## 5. Make it smaller
#
# Someone computes the sums of the rows as a product with a column of ones. Products are fast; but three kernels come out, and the exponentials are
# written once and read twice.


# %%
ones = np.ones((256, 1), np.float32)


def shares(x):
    """Each exponential as a share of its row."""
    return x.exp() / (x.exp() @ ones)


smaller = teach.Improve(
    "Change the function, so that it computes the same in one kernel.",
    wb.trace(shares, x=(1024, 256)),
    measure=lambda build: teach.cost(build).kernels,
    goal=1,
    unit="kernels",
    hints=[
        "teach.cost(smaller.build(shares)) lists the kernels.",
        "A kernel can hold a reduction, and the elementwise work before and after it.",
        "x.exp().sum(axis=1, keepdims=True) are the sums of the rows.",
    ],
    because="Only x is read and only the result is written: 2.1 MB instead of 5.3.",
    name="one kernel",
)
smaller.answer(shares)

# %%
teach.progress()
