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
# # Reductions, softmax and layer normalisation
#
# A sum over a row needs every element of the row. That makes reductions harder to compute in parallel than elementwise work, and their order of
# additions decides how exact they are. This lesson looks at both sides: how a softmax becomes one kernel, and how it stays right for large numbers.
#
# About 45 minutes; needs the lesson on fusion.

# %%
import numpy as np
import pandas as pd

import workbench as wb
from workbench import teach
from workbench.widgets.graph_view import GraphView

# %% [markdown]
# ## 1. A reduction is a tree
#
# The work items of a kernel share a sum. Each adds two elements; half as many work items add what these have found, and so on. Here it is in NumPy,
# for one row.

# %%
row = np.arange(256, dtype=np.float32)
partial = row
while len(partial) > 1:
    half = len(partial) // 2
    partial = partial[:half] + partial[half:]  # all of these at the same time
print(partial[0], "is the sum:", row.sum())

sums = wb.compile(wb.trace(lambda x: x.sum(axis=1), x=(1024, 256)), passes="gpu")
teach.cost(sums)

# %%
steps = teach.Number(
    "How often does the loop run for a row of 256 elements?",
    truth=lambda: int(np.log2(len(row))),
    unit="steps",
    hints=["Each step halves what is left: 256, 128, 64, …", "2 to the power of what is 256?"],
    because="A row of a million needs only 20. The kernel reads all of x and writes one sum a row.",
    name="steps of a tree",
)
steps

# %% [markdown]
# ## 2. A softmax in parts
#
# A softmax makes positive numbers of a row that add up to 1: `exp(x) / sum(exp(x))`. The compiler has one operation for it. The pass
# `rewrite_reduce` takes it apart, so that the rules of fusion need not know it. Without fusion, the parts look like this.

# %%
softmax = wb.trace(lambda x: x.softmax(axis=1), x=(1024, 256))
parts = wb.compile(softmax, passes=wb.pipelines()["gpu"].without("fusion"))
print(teach.cost(parts))
graph = GraphView(parts.program, height=460)
graph

# %%
kernels = teach.Number(
    "How many kernels are left with fusion?",
    truth=lambda: teach.cost(wb.compile(softmax, passes="gpu")).kernels,
    unit="kernels",
    hints=[
        "A kernel can hold several reductions, if all of them go along the same axis.",
        "Both reductions go along the rows, and the rest is elementwise.",
    ],
    because="The row stays with its work items from the first maximum to the last division.",
    name="kernels of a softmax",
)
kernels

# %%
fused = wb.compile(softmax, passes="gpu")
print(teach.cost(fused))
fused.explore(height=520)

# %% [markdown]
# ## 3. Large numbers
#
# `exp(100)` is more than a float can hold. Written by its formula, a softmax of large numbers fails. The compiler's does not.

# %%
large = {"x": np.array([[0, 50, 100]], np.float32)}
naive = wb.trace(lambda x: x.exp() / x.exp().sum(axis=1, keepdims=True), x=(1, 3))
stable = wb.trace(lambda x: x.softmax(axis=1), x=(1, 3))
for name, program in {"by its formula": naive, "softmax": stable}.items():
    print(f"{name:15}", wb.compile(program, "ref").run(large)[0])

# %%
nan = teach.Choice(
    "The formula gives NaN for the 100. Where does the NaN come from?",
    {
        "exp(100) is NaN": "It is infinite: larger than any float.",
        "infinity divided by infinity": "Both exp(100) and the sum that has it are infinite.",
        "0 divided by 0": "The sum is not 0: exp(0) alone is 1.",
    },
    truth="infinity divided by infinity",
    hints=["Compute np.exp(np.float32(100)), and the sum."],
    name="where the NaN comes from",
)
nan

# %%
saves = teach.Pick(
    "The compiler's softmax again. Click on the instruction that makes every argument of exp 0 or less.",
    graph,
    truth=lambda: [i.id for i in parts.program.main if i.name == "sub"],
    explain=lambda _: "Look at what exp reads, and who computes that.",
    hints=[
        "What is x - max(x) at most?",
        "reduce_max only finds the number. Another instruction uses it, right before exp.",
    ],
    because="x - max(x) is never positive, so exp is at most 1. The factor exp(-max) cancels out.",
    name="no overflow",
)
saves

# %%
last = teach.Number(
    "Half precision ends at 65,504. What is the largest whole number whose exp is finite in it?",
    truth=lambda: int(np.log(float(np.finfo(np.float16).max))),
    hints=["exp(10) is about 22,026. Each step multiplies by 2.72.", "Compare with 65,504."],
    because="exp(11) is 59,874; exp(12) would be 162,755. Attention easily has scores of 12.",
    name="exp in half",
)
last

# %% [markdown]
# The same trick helps wherever exponentials are added. The logarithm of such a sum is another example. Its results are modest; what lies between is not.


# %%
def logsumexp(x):
    """The logarithm of the sum of the exponentials of each row."""
    return x.exp().sum(axis=1, keepdims=True).log()


def largest_error(function):
    """The largest difference from the exact results, for numbers up to 1,000."""
    given = np.linspace(-1000, 1000, 64, dtype=np.float32).reshape(2, 32)
    found = wb.compile(wb.trace(function, x=given), "ref").run({"x": given})[0]
    return np.abs(
        found - np.logaddexp.reduce(given.astype(np.float64), axis=1, keepdims=True)
    ).max()


exact = teach.Goal(
    "Change logsumexp, so that its largest error is below a thousandth.",
    largest_error,
    1e-3,
    hints=[
        "Take the maximum of each row: x.max(axis=1, keepdims=True).",
        "exp(x) = exp(x - m) * exp(m), for any m that is the same in the whole row.",
        "The logarithm of the product is a sum: m + (x - m).exp().sum(…).log().",
    ],
    because="It costs one reduction more, in the same kernel.",
    name="a stable logarithm",
)
exact.answer(logsumexp)

# %% [markdown]
# ## 4. Layer normalisation: two formulas, one kernel
#
# A layer normalisation moves each row to mean 0 and variance 1. The variance is the mean of the squared distances from the mean. Or, which is
# equal on paper, the mean of the squares minus the square of the mean.


# %%
def centred(x):
    """The variance as the mean of the squared distances."""
    distance = x - x.mean(axis=1, keepdims=True)
    return distance / ((distance * distance).mean(axis=1, keepdims=True) + 1e-5).sqrt()


def of_squares(x):
    """The variance as the mean of the squares minus the square of the mean."""
    mean = x.mean(axis=1, keepdims=True)
    variance = (x * x).mean(axis=1, keepdims=True) - mean * mean
    return (x - mean) / (variance + 1e-5).sqrt()


forms = {f.__name__: wb.trace(f, x=(1024, 256)) for f in (centred, of_squares)}
for name, program in forms.items():
    print(f"{name:10}", teach.cost(wb.compile(program, passes="gpu")))

# %%
worse = teach.Choice(
    "Both are one kernel of 2.1 MB. The values are near 1,000, with a deviation of 1. Which one is wrong?",
    {
        "centred": "Its differences are small numbers, which a float holds exactly enough.",
        "of_squares": "It subtracts two numbers near a million to find a 1.",
        "neither": "On paper. Think of the seven digits that a float has.",
    },
    truth="of_squares",
    hints=[
        "The squares are near 1,000,000. How exact is a float there?",
        "np.spacing(np.float32(1e6))",
    ],
    name="two variances",
)
worse

# %%
errors = pd.DataFrame(
    index=pd.Index([0, 10, 100, 1000], name="values near"), columns=list(forms), dtype=float
)
noise = np.random.default_rng(0).standard_normal((1024, 256))
for near in errors.index:
    given = {"x": (noise + near).astype(np.float32)}
    for name, program in forms.items():
        build = wb.compile(program, "ref")
        exact_result = build.run(given, precision="float64")[0]
        errors.loc[near, name] = np.abs(build.run(given)[0] - exact_result).max()
errors

# %% [markdown]
# ## 5. Sums in half precision
#
# A half has 11 significant bits. Between 2,048 and 4,096 its neighbours are 2 apart. What does that do to a sum of many small numbers, added one after the other?

# %%
stuck = teach.Number(
    "Ones are added in half precision, one after the other, 4,096 of them. What is the sum?",
    truth=lambda: float(np.cumsum(np.ones(4096, np.float16))[-1]),
    hints=[
        "At which number does adding 1 no longer change anything?",
        "2,048 + 1 lies between two halves, 2,048 and 2,050, and is rounded to the even one.",
    ],
    because="From 2,048 on, each 1 is lost.",
    name="stuck sum",
)
stuck

# %% [markdown]
# So the compiler adds halves in float, and rounds the sum once. What remains is overflow, as the sum itself has to fit; lint says so. A mean does not
# have the problem: `rewrite_reduce` divides each term first.

# %%
halves = wb.Shape("half", (4096,))
total = wb.compile(wb.trace(lambda x: x.sum(axis=0), x=halves), "cpu", passes="gpu")
mean = wb.compile(wb.trace(lambda x: x.mean(axis=0), x=halves), "cpu", passes="gpu")
for value in (1, 20):
    given = {"x": np.full(4096, value, np.float16)}
    print(f"4,096 times {value}: sum {total.run(given)[0]}, mean {mean.run(given)[0]}")
print(*str(total.lint(only=["narrow-sum"])).splitlines()[-1:])

# %%
teach.progress()
