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
# # Kernels and the roofline
#
# A device runs kernels: small programs that read memory, compute, and write memory. This lesson compiles one model twice, with
# and without fusion, looks at the kernels, times them, and explains the difference.
#
# It runs on an AMD or NVIDIA GPU if there is one, otherwise on this machine's CPU through OpenCL. About 45 minutes; needs lesson 01.

# %%
import numpy as np

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

wb.devices()

# %% [markdown]
# ## 1. A model, compiled twice
#
# The model is a part of a network: a layer normalisation, a product, the activation "hard swish", a residual sum, and another
# normalisation. Its parts have names, which the compiler preserves.

# %%
rng = np.random.default_rng(0)


def block(rows=16_384, width=256):
    """A piece of a network as a program."""
    program = wb.Program("block")
    m = program.main

    def constant(value, lens):
        return m.add("multibroadcast", m.add_literal(np.array([value], np.float32)), out_lens=lens)

    def norm(x):
        lens = x.shape.lens
        mean = m.add("multibroadcast", m.add("reduce_mean", x, axes=(1,)), out_lens=lens)
        centred = m.add("sub", x, mean)
        variance = m.add("reduce_mean", m.add("mul", centred, centred), axes=(1,))
        scale = m.add("rsqrt", m.add("add", variance, constant(1e-5, variance.shape.lens)))
        return m.add("mul", centred, m.add("multibroadcast", scale, out_lens=lens))

    x = m.add_parameter("x", wb.Shape("float", (rows, width)))
    with program.source("norm 1"):
        y = norm(x)
    with program.source("projection"):
        weights = rng.standard_normal((width, width)) / np.sqrt(width)
        y = m.add("dot", y, m.add_literal(weights.astype(np.float32)))
    with program.source("hard swish"):
        lens = y.shape.lens
        gate = m.add("add", y, constant(3, lens))
        gate = m.add("min", m.add("max", gate, constant(0, lens)), constant(6, lens))
        y = m.add("mul", y, m.add("div", gate, constant(6, lens)))
    with program.source("residual"):
        y = m.add("add", x, y)
    with program.source("norm 2"):
        m.add_return(norm(y))
    return program


program = block()

# %% [markdown]
# The pipeline of the `gpu` target ends with fusion. Without it, every operation becomes a separate kernel. With it, all computation per
# row is in one kernel. A fused module opens like a folder.

# %%
plain = wb.compile(program, target="gpu", passes=wb.pipelines()["gpu"].without("fusion"))
fused = wb.compile(program, target="gpu")
print("without fusion:", teach.cost(plain))
print("with fusion:   ", teach.cost(fused))

where = teach.Pick(
    "This is the fused program. Click on the kernel that computes the hard swish.",
    GraphView(fused.program, height=360),
    truth=lambda: [i.id for i in fused.program.main if "hard swish" in i.sources],
    explain=lambda _: (
        "It computes another part. The inspector lists the parts of each kernel as sources."
    ),
    hints=[
        "Elementwise work joins a reduction that follows it.",
        "Search for source:swish: press `/` in the graph.",
    ],
    because="The hard swish, the residual sum and the second normalisation are one kernel.",
    name="the hard swish",
)
where

# %% [markdown]
# ## 2. The kernels
#
# Each row is a launch. The tabs show the kernel's source, its module, its machine code, and the compiler's log; `/` searches, and a
# click on a heading sorts. Numbers that this device does not report have no column. The same is there as data: below the table stand the
# source without the common prologue, and the machine code.

# %%
kernels = fused.kernels()
kernels

# %%
norm = next(k for k in kernels if "norm 1" in k.sources)
print(*norm.body.splitlines()[:20], "...", "", sep="\n")
print(*norm.assembly.splitlines()[:20], "...", sep="\n")

# %% [markdown]
# ## 3. Time, with its uncertainty
#
# A profile runs once to warm up, and then several times with an event around each kernel. Times are medians with interquartile
# ranges, and their sum is compared with the time of the whole run.

# %%
inputs = {"x": rng.standard_normal((16_384, 256)).astype(np.float32)}
slow = plain.run(inputs, profile=True, repetitions=8)
fast = fused.run(inputs, profile=True, repetitions=8)

assert np.allclose(slow[0], fast[0], atol=1e-5)
print(fast.run_times)
fast.timings()

# %% [markdown]
# Both builds side by side, by the parts of the model that the kernels compute. A difference that may be due to chance is marked as
# noise.

# %%
comparison = wb.compare_timings(slow, fast, names=("plain", "fused"))
comparison.plot()
comparison

# %% [markdown]
# ## 4. What fusion saves
#
# A kernel that adds two floats reads 8 bytes and writes 4 for one operation: memory traffic dominates, the arithmetic is free. A
# fused kernel keeps intermediate values in registers, so that only one read and one write are left.

# %%
for name, build in (("plain", plain), ("fused", fused)):
    found = build.kernels()
    moved, flops = sum(k.bytes for k in found), sum(k.flops for k in found)
    print(
        f"{name}: {len(found)} kernels move {moved / 1e6:.0f} MB: {flops / moved:.1f} operations a byte"
    )

# %% [markdown]
# The roofline plot shows the consequence. On the left, with little arithmetic per byte, memory bandwidth is the limit (the slope);
# on the right arithmetic is (the flat part). Both limits were measured on this device. With fusion, the same work is fewer dots,
# further to the right: each moves fewer bytes per operation. A dot above the slope read from a cache; a dot far below both lines is
# limited by something else, such as barriers.

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.5), sharex=True, sharey=True, layout="constrained"
)
slow.plot_roofline(left).set_title("plain")
fast.plot_roofline(right).set_title("fused");

# %%
ridge = teach.Number(
    "A device reads 100 GB a second, and computes 1,600 GFLOP a second. "
    "From how many operations a byte on is arithmetic its limit?",
    truth=lambda: 1600 / 100,
    unit="operations a byte",
    hints=[
        "In the time of one byte, how many operations can it compute?",
        "The slope meets the flat part where both take the same time.",
    ],
    because="Below 16 operations a byte, faster arithmetic would not help.",
    name="the ridge",
)
ridge


# %%
def rows_enough(rows):
    """The number of rows, if a product of them with weights of 1024 × 1024 reaches the flat part."""
    product = wb.trace(lambda x, w: x @ w, x=(rows, 1024), w=(1024, 1024))
    cost = teach.cost(wb.compile(product, passes="gpu"))
    if cost.flops / cost.bytes < 16:
        raise ValueError(f"{cost.flops / cost.bytes:.2f} operations a byte are too few")
    return rows


batch = teach.Goal(
    "One request is one row, and all weights are read for it. "
    "How many rows have to wait for each other, until that device is busy computing? Find the fewest.",
    rows_enough,
    35,
    unit="rows",
    hints=[
        "n rows need 2 × n × 1024 × 1024 operations. Which bytes are read, and which are written?",
        "The weights are 4 × 1024 × 1024 bytes; x and the result are 4 × n × 1024 each.",
    ],
    because="That is why servers collect requests into batches. In half precision, 18 rows would do.",
    name="rows of a batch",
)
batch.answer(1)

# %% [markdown]
# ## 5. From a kernel to the graph and back
#
# The graph of the fused program, coloured by time, and its kernels. They share one selection, with each other and with Python.

# %%
explorer = fused.kernels(fast).explore()
explorer

# %% [markdown]
# ## 6. A device that is not present
#
# Kernels can be compiled for another device and inspected: how many registers does each need there? If a compiler is missing, the
# message says which.

# %%
for device in ("hip:gfx90a", "cuda:sm_90"):
    try:
        there = wb.compile(program, target="gpu", device=device).kernels()
        print(device, *(f"{k.instruction}: {k.registers} registers" for k in there), sep="\n  ")
    except wb.WorkbenchError as error:
        print(device, error, sep="\n  ")

# %%
teach.progress()
