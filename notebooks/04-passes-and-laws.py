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
# # Passes and laws
#
# This lesson takes the compiler apart: which passes run, what each can do and did, why two kernels were not fused, how to add and
# check your own pass, and how to find a pass that is wrong.
#
# The program is one block of a transformer: attention over 16 tokens, a layer normalisation, and a GELU between two products.
#
# About 45 minutes; needs the lesson on the intermediate representation.

# %%
import numpy as np

import workbench as wb
from workbench import teach

rng = np.random.default_rng(0)


def block(tokens=16, width=32):
    """One block of a transformer as a program."""
    program = wb.Program("block")
    m = program.main

    def weights(*lens):
        return m.add_literal((rng.standard_normal(lens) / np.sqrt(lens[0])).astype(np.float32))

    def repeated(value, lens):
        return m.add("multibroadcast", m.add_literal(np.array([value], np.float32)), out_lens=lens)

    def norm(x):
        lens = x.shape.lens
        mean = m.add("multibroadcast", m.add("reduce_mean", x, axes=(-1,)), out_lens=lens)
        centred = m.add("sub", x, mean)
        variance = m.add("reduce_mean", m.add("mul", centred, centred), axes=(-1,))
        deviation = m.add("sqrt", m.add("add", variance, repeated(1e-5, variance.shape.lens)))
        return m.add("div", centred, m.add("multibroadcast", deviation, out_lens=lens))

    def gelu(x):
        inner = m.add("erf", m.add("div", x, repeated(2**0.5, x.shape.lens)))
        whole = m.add("mul", x, m.add("add", inner, repeated(1, x.shape.lens)))
        return m.add("mul", whole, repeated(0.5, x.shape.lens))

    x = m.add_parameter("x", wb.Shape("float", (tokens, width)))
    with program.source("attention"):
        q, k, v = [m.add("dot", x, weights(width, width)) for _ in range(3)]
        scores = m.add("dot", q, m.add("transpose", k, permutation=(1, 0)))
        scores = m.add("div", scores, repeated(width**0.5, scores.shape.lens))
        attended = m.add("dot", m.add("softmax", scores, axis=1), v)
    with program.source("norm"):
        y = norm(m.add("add", x, attended))
    with program.source("feed forward"):
        z = m.add(
            "dot", gelu(m.add("dot", y, weights(width, 4 * width))), weights(4 * width, width)
        )
        m.add_return(m.add("add", y, z))
    return program


program = block()
program

# %% [markdown]
# ## 1. Pipelines are values
#
# A pipeline is a list of passes with their options. It can be printed, edited by name, and compared with another. Compiled by all
# passes for a device, the block becomes five kernels: attention is one group, the layer normalisation one reduction.

# %%
pipelines = wb.pipelines()
pipelines["gpu"]

# %%
mine = pipelines["gpu"].without("fuse_attention", "simplify_algebra.find_div_const")
pipelines["gpu"].compare(mine).query("change != '='")

# %%
build = wb.compile(program, passes="gpu")
build.program

# %%
whole = teach.Number(
    "How many kernels does the block become without the pass fuse_attention? Guess before you compile it.",
    truth=lambda: (
        teach.cost(wb.compile(program, passes=pipelines["gpu"].without("fuse_attention"))).kernels
    ),
    unit="kernels",
    hints=[
        "Attention is two products with a softmax between them. What does one kernel hold of that?",
        "teach.cost(wb.compile(program, passes=mine)) counts the kernels of a pipeline.",
    ],
    because="Three kernels for one: a product with its scale, a softmax, and the other product.",
    name="without one pass",
)
whole

# %%
order = teach.Goal(
    "Four passes in a bad order leave 16 kernels. Put them in an order that leaves at most 7.",
    lambda names: teach.cost(wb.compile(program, passes=exactly(names, four))).kernels,
    7,
    unit="kernels",
    hints=[
        "A pass works on what the passes before it made.",
        "fuse_reduce and fuse_gemm_epilogue take elementwise kernels in. Which pass makes these?",
        "fuse_pointwise comes before both. Where simplify_algebra is does not matter much.",
    ],
    because="Elementwise work has to be one kernel before a reduction or a product can take it in.",
    name="the order of passes",
)


def exactly(names, wanted):
    """The names, if they are the wanted ones in any order."""
    if sorted(names) != sorted(wanted):
        raise ValueError(f"expected these passes, each once: {', '.join(wanted)}")
    return list(names)


four = ["fuse_reduce", "fuse_gemm_epilogue", "fuse_pointwise", "simplify_algebra"]
order.answer(four)

# %% [markdown]
# ## 2. One edit at a time
#
# What could a pass do now? Each row is a match of a rule, with the rule's law.

# %%
algebra = wb.passes()["simplify_algebra"]()
algebra.would_change(program)

# %% [markdown]
# Run only its first edit, inspect the result, and undo it. The recording can also be replayed up to any edit: `step.after_edit(k)`.

# %%
work = program.clone()
recording = algebra.run(work, edits=1)
edit = recording[0].edits[0]
print(edit.label, edit.law, sep="\n")

recording.undo()
assert str(work) == str(program)

# %% [markdown]
# ## 3. Why, and why not
#
# Every near miss is recorded: a match that a rule declined, with the reason. And `why_not` says why two instructions, or two nodes of a
# model, are not one kernel.

# %%
for miss in build.recording.near_misses()[:8]:
    print(f"{miss.rule} at {miss.at}: {miss.reason}")

softmax = next(i for i in program.main if i.name == "softmax")
erf = next(i for i in program.main if i.name == "erf")
print(build.why_not(softmax, erf))
print(build.why_not("attention", "norm"))

# %% [markdown]
# ## 4. A pass of your own
#
# A rule is a pattern and a small function; its docstring is its law. This one is for networks that write ReLU as a maximum with 0.


# %%
from workbench.compiler.rewrite import literal, op, var


@wb.rule(op("max", var("x"), literal("zero", lambda i: not np.any(i.literal.numpy()))))
def find_relu(b, x):
    """max(x, 0) → relu(x)"""
    return b("relu", x)


wb.check_rule(find_relu)

# %% [markdown]
# The law was tested on programs generated from the rule's pattern, in many types and shapes, and it holds. A wrong rule is caught,
# with a program that shows the error:


# %%
@wb.rule(op("sub", var("x"), var("y")))
def find_sub(b, x, y):
    """sub(x, y) → sub(y, x)"""
    return b("add", b("neg", x), y)


wb.check_rule(find_sub)

# %% [markdown]
# The correct rule goes into a pass, and the pass into a pipeline. It is recorded and explored like the built-in ones.

# %%
from workbench.compiler.passes.base import RewritePass


class FindRelu(RewritePass):
    """Maxima with zero as what they are."""

    name = "find_relu"
    rules = (find_relu,)


small = wb.Program("small")
x = small.main.add_parameter("x", wb.Shape("float", (2, 3)))
zeros = small.main.add_literal(np.zeros((2, 3), np.float32))
small.main.add_return(small.main.add("max", x, zeros))

build = wb.compile(small, passes=pipelines["optimize"].before("simplify_reshapes", FindRelu()))
build.explore()

# %% [markdown]
# ## 5. Which pass broke it?
#
# Given inputs, `compile(check=...)` runs the program after every pass, and stops at the first pass after which a result differs. The
# message names the rewrite.


# %%
class Wrong(RewritePass):
    """A pass with a mistake in it."""

    name = "wrong"
    rules = (find_sub,)


try:
    wb.compile(program, passes=["normalize_ops", "simplify_algebra", Wrong()], check={})
except wb.WorkbenchError as error:
    print(error)

# %% [markdown]
# Three passes that somebody wrote. Their laws hold for floats, but one of the functions does not do what its law says. Do not read
# them: let the compiler find it.


# %%
@wb.rule(op("div", var("x"), var("y")))
def as_product(b, x, y):
    """div(x, y) → mul(x, recip(y))"""
    return b("mul", x, b("recip", y))


@wb.rule(op("mul", var("x"), op("add", var("y"), var("z"))))
def distributed(b, x, y, z):
    """mul(x, add(y, z)) → add(mul(x, y), mul(x, z))"""
    return b("add", b("mul", x, y), b("mul", x, y))


@wb.rule(op("sub", var("x"), var("y")))
def as_sum(b, x, y):
    """sub(x, y) → add(x, neg(y))"""
    return b("add", x, b("neg", y))


class Products(RewritePass):
    """Quotients as products."""

    name, rules = "products", (as_product,)


class Sums(RewritePass):
    """Products of sums as sums."""

    name, rules = "sums", (distributed,)


class Differences(RewritePass):
    """Differences as sums."""

    name, rules = "differences", (as_sum,)


def is_wrong(suspect):
    """Whether a result differs after this pass alone."""
    try:
        wb.compile(program, passes=[suspect], check={})
    except wb.WorkbenchError:
        return True
    return False


suspects = [Differences(), Products(), Sums()]
guilty = teach.Text(
    "Which of the three passes is wrong? Write its name.",
    truth=lambda: [p.name for p in suspects if is_wrong(p)],
    hints=[
        "The cell above shows how to compile with a check after every pass.",
        "wb.compile(program, passes=suspects, check={}) stops at the pass, and names the edit.",
    ],
    because="It adds mul(x, y) to itself, where the second should be mul(x, z).",
    name="the wrong pass",
)
guilty

# %%
teach.progress()
