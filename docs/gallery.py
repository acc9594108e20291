# %% [markdown]
# # Gallery
#
# Every view, live on this page: click, drag, scroll, press `?` for the keys. The code above each is all that it takes. The
# program is a small residual network.

# %%
import numpy as np

import workbench as wb

rng = np.random.default_rng(0)


def block(x, width):
    """Two products with an activation between them, added to the input."""
    a, b = (rng.standard_normal((width, width), np.float32) / width**0.5 for _ in range(2))
    y = x @ a
    return x + (y * y.sigmoid()) @ b


x_shape = (16, 64)
program = wb.trace(lambda x: block(block(x, 64), 64).softmax(axis=-1), x=x_shape)
inputs = {"x": rng.standard_normal(x_shape, np.float32)}

# %% [markdown]
# ## A graph
#
# A program in a cell. [Finding things in the views](../views.md) says how to search it and how to see a part of it.

# %%
program

# %% [markdown]
# ## The passes
#
# The graph before and after each pass, its edits, and the text diff. See [what a pass did](../why_not.md).

# %%
build = wb.compile(program, target="gpu")
build.explore()

# %% [markdown]
# ## A filmstrip
#
# The program after each of some passes as one still picture, for [slides](../teach.md#slides) and print.

# %%
build.filmstrip("rewrite_reduce", "fuse_pointwise", "fuse_reduce")

# %% [markdown]
# ## Two programs
#
# The same program with and without fusion ([two programs beside each other](../workbench.md#two-programs-beside-each-other)).

# %%
plain = wb.compile(program, target="gpu", disable=("fuse_pointwise", "fuse_reduce"))
wb.differences(plain, build).view()

# %% [markdown]
# ## Kernels
#
# The graph coloured by time, above the kernels with their source ([reading kernels](../kernels.md)).

# %%
result = build.run(inputs, profile=True)
build.kernels(result).explore()

# %% [markdown]
# ## Errors
#
# The same in half precision: each value against float64 ([finding the culprit](../compare.md)).

# %%
half = wb.compile(program, target="cpu", precision="fp16")
report = wb.compare(half, inputs)
report.view()

# %% [markdown]
# ## Values
#
# One value, element by element, beside its reference ([looking closer](../compare.md#looking-closer)).

# %%
report.inspect(report.worst().index[0])

# %% [markdown]
# ## Memory
#
# The lifetimes of buffers, and their places ([time and memory](../measure.md)).

# %%
build.memory().plot()

# %% [markdown]
# ## Roofline
#
# Kernels against what the device can do. On this page the device is a CPU, through OpenCL.

# %%
result.plot_roofline();

# %% [markdown]
# ## Everything in one widget
#
# `build.open()`, or `wb.open("model.onnx")` ([the workbench as one widget](../workbench.md)).

# %%
build.open()
