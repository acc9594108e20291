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
# # Which operation broke my half-precision model?
#
# A network works in float. Compiled in half precision, it gives the same answer for every input, without a NaN and without a warning.
# This lesson finds the operation, looks inside it, and repairs the model with nearly all of its work still in half.
#
# The network is Magika's: it reads the first and the last 1,024 bytes of a file, and says which of 214 types the file has.
#
# About 45 minutes; needs lesson 01.

# %%
import json
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

# %% [markdown]
# ## 1. A wrong answer
#
# The model is a file in a Python package. Its batch is fixed to one, so that the compiler can fuse. It is tried on a few files.

# %%
folder = Path(find_spec("magika").origin).parent / "models" / "standard_v3_3"
labels = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
program = wb.parse_onnx(folder / "model.onnx", default_dim_value=1)

plain = wb.compile(program, "cpu")
half = wb.compile(program, "cpu", precision="fp16")


def read(path):
    """The ends of a file as the network takes them; 256 fills what is missing."""
    content = np.frombuffer(path.read_bytes().strip(), np.uint8)
    row = np.full(2048, 256, np.int32)
    start, end = content[:1024], content[-1024:]
    row[: len(start)], row[2048 - len(end) :] = start, end
    return {"bytes": row[None]}


def answers(build):
    """The most likely type of each file, and its probability."""
    outputs = [build.run(inputs)[0][0] for inputs in samples.values()]
    return [f"{labels[p.argmax()]} {p.max():.3f}" for p in outputs]


data = Path(mpl.get_data_path())
images = [data / "images" / f"home.{kind}" for kind in ("svg", "pdf", "png")]
paths = [Path(json.__file__), *images, data / "fonts" / "ttf" / "DejaVuSans.ttf"]
samples = {path.name: read(path) for path in paths}

pd.DataFrame({"float": answers(plain), "half": answers(half)}, index=list(samples))

# %% [markdown]
# In half, every file is JavaScript with the same probability: the answer no longer depends on the input.
#
# ## 2. Where does it come from?
#
# The values of the run in half are compared with float64, and shown in the order of the run: the error of each value as it ran (line),
# and that of its kernel alone, on right inputs (diamonds). At one of them the error jumps.

# %%
inputs = samples["__init__.py"]
report = wb.compare(half, inputs)
report.plot()
# %%
errors = report.table()[["relative rms"]]
begins = teach.Pick(
    "The program in half, coloured by the errors of the run. Click on the kernel at which they begin.",
    GraphView(half.program, overlay=errors, height=480),
    truth=lambda: [report.culprits()[0].id],
    explain=lambda _: "Its own result is right for its inputs, or it has none to be compared.",
    hints=[
        "In the plot, the line jumps at one value. What is its diamond?",
        "Go up from the result: the first kernel whose inputs are right, and whose result is not.",
    ],
    because="Its inputs are right, its result is not. Whatever comes after it inherits that.",
    name="where it begins",
)
begins

# %% [markdown]
# All values after the jump are wrong, but their kernels alone are right: only the first is to blame. Such instructions are the culprits,
# each with the nodes of the model and the reason. This one is a fused kernel, a whole layer normalisation; `part` is the instruction
# inside it that fails.

# %%
culprit = report.culprits()[0]
print(culprit)
print(f"\ncause: {culprit.cause}; {culprit.part.name} of values in", *culprit.part.operands)

# %% [markdown]
# ## 3. Look inside
#
# What does the node compute? The target `ref` fuses nothing, so that each value has a memory of its own. `beyond half` is the share of
# elements that half would round to infinity.

# %%
node = culprit.sources[0]
square = node.replace("Sum_1", "Square")
table = wb.compile(program, "ref").values(inputs, [square, node], statistics=True)
table.set_axis(["Square", "Sum_1"])[["count", "min", "max", "mean", "beyond half", "histogram"]]

# %% [markdown]
# The variance is the mean of the squares minus the square of the mean. Each square is small enough; their sum is not, and it is divided
# by their number only afterwards.

# %%
largest = teach.Number(
    "The sum is over 512 squares. From which mean of the squares on is it beyond the largest half?",
    truth=lambda: float(np.finfo(np.float16).max) / 512,
    within=0.01,
    hints=["The largest half is 65,504.", "The sum is 512 times the mean."],
    because="So values of about 11 are too large here, though half goes up to 65,504.",
    name="the largest mean",
)
largest

# %%
silent = teach.Choice(
    "The sum is infinite, but the network gives an answer without a NaN. How?",
    {
        "the infinite value is never used": "It is: all values of the layer are divided by its root.",
        "what is divided by infinity is 0": (
            "All normalised values are 0, which is finite. So every file gets the same answer."
        ),
        "softmax takes infinities away": "Nothing infinite arrives there: look at the errors on the way.",
    },
    truth="what is divided by infinity is 0",
    hints=[
        "A layer normalisation divides by the root of the variance. Compute 1 / np.sqrt(np.inf)."
    ],
    name="no NaN",
)
silent

# %% [markdown]
# ## 4. Repair it
#
# `keep` leaves a node in its own type. Is one enough?

# %%
first = wb.compile(program, "cpu", precision="fp16", keep=[node])
print(answers(first))

moved = wb.compare(first, inputs).culprits()[0]
print(moved)

# %% [markdown]
# No. The sum is right now, but the division that follows takes it as half, and the conversion overflows. The culprit has moved on; it
# is the next to keep.

# %%
second = wb.compile(program, "cpu", precision="fp16", keep=[node, moved.sources[0]])
print(answers(second))
print(wb.compare(second, inputs))

# %% [markdown]
# `search_precision` does this by itself: it finds the cheapest choice whose outputs are within a tolerance, here for two files at
# once. With `by="scope"` a layer is kept as a whole. `sensitivity` shows why: each layer alone in half (bars), and all layers but one in
# half (dots). One layer has all of the error: alone it breaks the network, and without it the network is right.

# %%
two = [samples["__init__.py"], samples["home.svg"]]
found = wb.search_precision(program, two, tolerance=0.01, by="scope", target="cpu")
print("kept:", *found.keep)
print(f"in half: {found.share:.4%} of the floating-point operations")
wb.sensitivity(program, inputs, by="scope", target="cpu").plot()
pd.DataFrame({"float": answers(plain), "half": answers(found.compile("cpu"))}, index=list(samples))

# %% [markdown]
# ## 5. Against another tool
#
# The reference may come from elsewhere. onnxruntime computes every tensor of the model; those that the build still computes are compared.
#
# Or arrays by name, as another framework would dump them: a dictionary, or the path of an `.npz` file. Even if the dump has only the
# output, the culprit is found.

# %%
dump = {"target_label": plain.run(inputs)[0]}
print(wb.compare(half, inputs, reference=dump).culprits()[0])

other = wb.compare(half, inputs, reference="onnxruntime", model=folder / "model.onnx")
table = other.table()[["reference", "kernel", "relative rms", "wrong"]]
table.assign(reference=table["reference"].str.replace(".*MagikaV2/", "", regex=True))

# %% [markdown]
# ## 6. Repair the model instead
#
# Whoever trains the model can do better than to keep an operation in float: write it so that half is enough. This is the variance of the
# model, for 512 values in half.


# %%
def variance(x):
    """The variance of each row, as the model computes it."""
    mean = x.sum(axis=1) * (1 / 512)
    return (x * x).sum(axis=1) * (1 / 512) - mean * mean


values = (np.random.default_rng(0).standard_normal((4, 512)) * 19 + 5).astype(np.float16)


def error(function):
    """The largest relative error of a variance that is computed in half."""
    traced = wb.trace(function, x=wb.Shape("half", values.shape))
    found = wb.compile(traced, "ref").run({"x": values})[0].astype(float).ravel()
    return np.abs(found / values.astype(float).var(axis=1) - 1).max()


repaired = teach.Goal(
    "Change the function, so that its relative error in half is at most 0.01.",
    error,
    0.01,
    hints=[
        "The variance itself is about 360, and fits. What is too large on the way to it?",
        "Divide before you add up: each square by 512.",
        "(x * x * (1 / 512)).sum(axis=1), or the mean of the squares.",
    ],
    because="No value on the way is larger than the largest square.",
    name="variance in half",
)
repaired.answer(variance)

# %%
teach.progress()
