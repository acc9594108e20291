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
# A device runs kernels: small programs that read memory, compute, and write memory. This notebook compiles one model twice, with
# and without fusion, looks at the kernels that come out, times them, and asks what the difference is made of.
#
# It runs on what is here: an AMD or NVIDIA GPU, or else this machine's CPU through OpenCL.

# %%
import numpy as np

import workbench as wb

wb.devices()

# %% [markdown]
# ## 1. A model, compiled twice
#
# A piece of a network: a layer normalisation, a product, the activation "hard swish", a residual sum, and a normalisation again. Its
# parts have names, which are kept through all that the compiler does.

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
# The pipeline of the `gpu` target ends in fusion. Left out, every operation becomes a kernel of its own.

# %%
plain = wb.compile(program, target="gpu", passes=wb.pipelines()["gpu"].without("fusion"))
plain.program

# %% [markdown]
# With it, what is computed for each row stays in one kernel. A fused module opens like a folder.

# %%
fused = wb.compile(program, target="gpu")
fused.program

# %% [markdown]
# ## 2. The kernels
#
# A row is a launch. The tabs show its source, the module that it was made from, its machine code, and what the compiler said; `/`
# searches, and a click on a heading sorts. What nothing on this device tells has no column.

# %%
kernels = fused.kernels()
kernels

# %% [markdown]
# The same as data: the source without what all kernels share, and the machine code that the device runs.

# %%
norm = next(k for k in kernels if "norm 1" in k.sources)
print(*norm.body.splitlines()[:20], "...", "", sep="\n")
print(*norm.assembly.splitlines()[:20], "...", sep="\n")

# %% [markdown]
# ## 3. Time, with its uncertainty
#
# A profile runs once to warm up, and then several times with an event around each kernel. Times are medians, with the
# interquartile range beside them, and their sum is held against the whole run.

# %%
inputs = {"x": rng.standard_normal((16_384, 256)).astype(np.float32)}
slow = plain.run(inputs, profile=True, repetitions=20)
fast = fused.run(inputs, profile=True, repetitions=20)

assert np.allclose(slow[0], fast[0], atol=1e-5)
print(fast.run_times)
fast.timings()

# %% [markdown]
# Side by side, by the parts of the model that the kernels compute. A difference that two sets of repetitions could have shown by
# chance is called noise.

# %%
comparison = wb.compare_timings(slow, fast, names=("plain", "fused"))
comparison.plot()
comparison

# %% [markdown]
# ## 4. What fusion saves
#
# A kernel that adds two numbers reads 8 bytes and writes 4 for one operation. The arithmetic is nothing; the traffic is all. A fused
# kernel keeps what is between two operations in registers, so that one reading and one writing are left.

# %%
for name, build in (("plain", plain), ("fused", fused)):
    found = build.kernels()
    moved, flops = sum(k.bytes for k in found), sum(k.flops for k in found)
    print(
        f"{name}: {len(found)} kernels move {moved / 1e6:.0f} MB: {flops / moved:.1f} operations a byte"
    )

# %% [markdown]
# The roofline shows what follows. To the left, where there is little arithmetic for a byte, the memory's bandwidth is the limit (the
# slope); to the right the arithmetic itself is (the flat part). Both limits were measured on this device. Fused, the same work is
# fewer dots, further to the right: each moves fewer bytes for what it computes. A dot above the slope found its bytes in a cache; one
# that is far below both lines waits for something else, such as the threads of its block for one another.

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.5), sharex=True, sharey=True, layout="constrained"
)
slow.plot_roofline(left).set_title("plain")
fast.plot_roofline(right).set_title("fused");

# %% [markdown]
# ## 5. From a kernel to the graph and back
#
# The graph of the fused program, coloured by time, and its kernels: what is selected in one is selected in the other, and in Python.

# %%
explorer = fused.kernels(fast).explore()
explorer

# %% [markdown]
# ## 6. A device that is not here
#
# Kernels can be compiled for another device, and read: how many registers does each need there? What is missing is said.

# %%
for device in ("hip:gfx90a", "cuda:sm_90"):
    try:
        there = wb.compile(program, target="gpu", device=device).kernels()
        print(device, *(f"{k.instruction}: {k.registers} registers" for k in there), sep="\n  ")
    except wb.WorkbenchError as error:
        print(device, error, sep="\n  ")
