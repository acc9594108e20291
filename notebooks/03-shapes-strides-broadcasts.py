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
# # Shapes, strides and broadcasts
#
# A tensor in memory is a row of numbers, and a rule for finding an element in it. This lesson is about that rule. It explains why some
# operations cost nothing, why others copy, and what `{2, 3}, {3, 1}` means in the printed programs.
#
# About 40 minutes; needs the lesson on the intermediate representation.

# %%
import numpy as np

import workbench as wb
from workbench import teach

# %% [markdown]
# ## 1. Lengths and strides
#
# A **shape** has a type, the length of each axis, and the **stride** of each axis: how many elements further the next one along that axis lies. Element
# `(i, j)` is found at `i × stride 0 + j × stride 1`.

# %%
shape = wb.Shape("float", (2, 3))
print(shape)
print("element (1, 2) is at", 1 * shape.strides[0] + 2 * shape.strides[1])

# %%
strides = teach.Text(
    "Lengths {4, 5, 6}, elements in order, row after row: which strides? Write them as {a, b, c}.",
    truth=lambda: "{" + ", ".join(map(str, wb.Shape("float", (4, 5, 6)).strides)) + "}",
    hints=[
        "The last axis has stride 1: neighbours are adjacent.",
        "One step along the first axis passes 5 × 6 elements.",
    ],
    because="The last axis is contiguous, and each axis before it passes all that follows.",
    name="strides in order",
)
strides

# %% [markdown]
# ## 2. Views: the same memory, another rule
#
# `transpose` exchanges axes. No element has to move for that: it is enough to exchange the strides. Such an operation is called a **view**.

# %%
turned = wb.trace(lambda x: x.T, x=(2, 3))
print(turned)

# %%
view = teach.Choice(
    "Which of these needs a copy, if x has the lengths {2, 3} and lies in order?",
    {
        "x[:, 1:]": "A slice begins further on, and keeps the strides.",
        "x.T": "The strides are exchanged; nothing moves.",
        "x.T.reshape(6)": "No single stride leads through the transposed elements in their order.",
        "x.reshape(3, 2)": "The elements keep their order, so new strides are enough.",
    },
    truth="x.T.reshape(6)",
    hints=["Write down the positions of the elements of the result. Are they equally far apart?"],
    name="which one copies",
)
view

# %% [markdown]
# ## 3. Broadcasts: stride 0
#
# A row can be used for every row of a matrix without being repeated in memory: the stride of the new axis is 0. Look at the broadcast of `bias`.

# %%
added = wb.trace(lambda x, bias: x + bias, x=(4, 3), bias=(3,))
print(added)

# %%
read = teach.Number(
    "How many different elements of memory does the broadcast of bias, of lengths {4, 3}, stand for?",
    truth=lambda: next(i for i in added.main if i.name == "multibroadcast").shape.element_space,
    hints=["The axis of stride 0 leads to the same elements again."],
    because="Twelve elements are read, but only three are there: the kernel reads them from the cache.",
    name="elements behind a broadcast",
)
read

# %% [markdown]
# ## 4. When a copy is made
#
# A kernel can read through any strides: `pointwise` below takes the transposed `x` as it is. But the result of `reshape` lies in order, whatever its input
# is. So this `reshape` is a copy.

# %%
program = wb.trace(lambda x: (x.T + 1, x.T.reshape(6)), x=(2, 3))
build = wb.compile(program, target="cpu")
print(build.program)

# %%
build.explore(height=560)

# %% [markdown]
# Lint lists such copies with what they cost, and what to do about them.

# %%
print(build.lint())

# %% [markdown]
# ## 5. Layouts decide the speed of memory
#
# Adjacent elements are fetched from memory together. A sum over the last axis of a row-major matrix reads what lies side by side; a sum over the first
# axis jumps. Both read the same number of bytes.

# %%
big = np.asfortranarray(np.ones((2048, 2048), np.float32))
print("a float has 4 bytes; NumPy's strides are in bytes:", big.strides)

near = teach.Choice(
    "A matrix is stored column by column: strides {1, 2048}. Along which axis are neighbours adjacent?",
    {
        "the first (down a column)": "Its stride is 1.",
        "the last (along a row)": "Its stride is 2048: one step passes a whole column.",
    },
    truth="the first (down a column)",
    name="side by side",
)
near

# %% [markdown]
# ## 6. Find the culprit
#
# Each row is divided by its sum. Someone changed one instruction of the program, and the results are wrong. Compare the two, and name the culprit.

# %%
right = wb.parse("""
x = @param:x -> float_type, {2, 3}
a = transpose[permutation={1, 0}](x)
r = reduce_sum[axes={1}](a)
s = multibroadcast[out_lens={3, 2}](r)
y = div(a, s)
@return(y)
""")
wrong = wb.parse(str(right).replace("reduce_sum", "reduce_max"))
culprit = teach.Culprit(
    "Which instruction of `wrong` is the culprit? Compare the two with wb.differences(right, wrong).",
    right,
    wrong,
    hints=["wb.differences(right, wrong).table() lists what differs."],
    name="the culprit",
)
culprit

# %%
wb.differences(right, wrong).view(height=560)

# %%
teach.progress()
