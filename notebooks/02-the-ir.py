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
# # The intermediate representation
#
# A compiler does not work on your model's file. It works on its own form of the program, the intermediate representation (IR). This
# lesson shows what that form is made of: instructions, values, modules, parameters and constants. At the end you can read any program that
# the workbench prints.
#
# About 40 minutes; needs NumPy's basics.

# %%
import numpy as np

import workbench as wb
from workbench import teach

# %% [markdown]
# ## 1. Instructions
#
# A program is a list of **instructions**. Each applies one **operation** to values that earlier instructions made, and makes one value.
# Here is a small one, written as Python expressions. Nothing is computed yet: `@`, `+` and `relu` only write instructions down.

# %%
weights = np.array([[1, -1], [2, 0], [0, 3]], np.float32)

b = wb.Builder("layer")
x = b.input("x", (4, 3))
y = (x @ weights + 1).relu()
program = b.program(y)
print(program)

# %% [markdown]
# Read one line: `@3 = dot(x,@1) -> float_type, {4, 2}, {2, 1}`. The name of the value is `@3`, its position in the list. The operation is
# `dot`, the matrix product; its inputs are `x` and `@1`. After the arrow stand the type of the elements, the lengths of the axes, and the
# strides, which are the next lesson's.
#
# Three kinds of lines are special. A `@param` is an input of the program. A `@literal` is a constant. `@return` ends the program and names its
# results.

# %%
program

# %%
lines = teach.Number(
    "How many instructions of the program compute something? Parameters, literals and @return do not.",
    truth=lambda: sum(not i.name.startswith("@") for i in program.main),
    hints=[
        "Count the lines whose operation does not begin with @.",
        "The number 1 is spread to the shape of the product: that is an instruction, too.",
    ],
    because="The product, the broadcast of the constant, the sum, and relu.",
    name="computing instructions",
)
lines

# %% [markdown]
# ## 2. Every value is made once
#
# A value is never changed after it is made. This form is called static single assignment (SSA). So "where does this value come from" has one
# answer, and so has "who uses it".

# %%
product = next(i for i in program.main if i.name == "dot")
print("inputs:", [i.parameter or i.name for i in product.inputs])
print("users: ", [i.name for i in product.users])

# %%
source = teach.Choice(
    "A compiler wants to remove the instruction `add`. What must it check first?",
    {
        "that no instruction uses its value": "The users of a value are known.",
        "that none of its inputs is a parameter": "Inputs do not depend on their users.",
        "that no later line assigns to it again": "No line can: every value is made exactly once.",
    },
    truth="that no instruction uses its value",
    name="removing an instruction",
)
source

# %% [markdown]
# ## 3. A list with an order, and a graph
#
# The list has an order in which the instructions can run. What has to be kept is less: an instruction comes after its inputs. The graph shows only
# that. Click on a node: the inspector shows its inputs and users.

# %%
from workbench.widgets.graph_view import GraphView

diamond = wb.trace(lambda x: (x.exp() + x.neg()) * x.sqrt(), x=(4,))
graph = GraphView(diamond, height=420)
graph

# %%
last = teach.Pick(
    "Click on the one instruction that cannot run before `exp`, `neg` and `sqrt` all have run.",
    graph,
    truth=lambda: [i.id for i in diamond.main if i.name == "mul"],
    explain=lambda _: (
        "It does not need all three of them; follow the edges from `exp`, `neg` and `sqrt` down."
    ),
    because="mul needs the sum of two of them, and the third.",
    name="the last one",
)
last

# %% [markdown]
# ## 4. Constants are known before the program runs
#
# What depends on literals only can be computed once, while compiling. The compiler calls such an instruction constant. Below, the weights are scaled
# in the program; the pass `propagate_constant` does that once for all.

# %%
b2 = wb.Builder("scaled")
x2 = b2.input("x", (4, 3))
scaled = b2.program(x2 @ (b2.constant(weights) * 2.0))
folded = wb.compile(scaled, passes=["propagate_constant", "dead_code_elimination"])
print(scaled)
print(folded.program)

# %%
left = teach.Number(
    "How many literals does the compiled program have?",
    truth=lambda: sum(i.literal is not None for i in folded.program.main),
    hints=["The weights, the number 2, and their product: which of them does anything still use?"],
    because="Only the product of the two is still used; dead code elimination removes the others.",
    name="literals left",
)
left

# %% [markdown]
# ## 5. Modules: programs in programs
#
# Some operations have a body, a module of its own: a branch, a loop, or the parts of a fused kernel. The main module calls it. After fusion,
# the sum and `relu` of our layer are the body of one instruction, `pointwise`.

# %%
build = wb.compile(program, target="cpu")
print(build.program)

# %%
inside = teach.Text(
    "Which operation is the last one inside the fused kernel?",
    truth=lambda: next(m for n, m in build.program.modules.items() if n != "main").outputs[0].name,
    hints=[
        "Find the second line that begins with `module:`.",
        "Its last line returns a value; who makes it?",
    ],
    name="inside the kernel",
)
inside

# %% [markdown]
# ## 6. Write one as text
#
# The printed form can be read back. By hand you may leave out what follows from the rest: strides, shapes after operations, the header. Write a program
# that computes `exp(-x)` for `x` of 8 elements, and hand it in.

# %%
text = """
x = @param:x -> float_type, {8}
y = neg(x)
@return(y)
"""


def distance(text):
    """The largest difference from exp(-x)."""
    given = np.linspace(-2, 2, 8, dtype=np.float32)
    found = wb.compile(wb.parse(text), "ref").run({"x": given})[0]
    return np.abs(found - np.exp(-given)).max()


written = teach.Goal(
    "Change the text, run the cell again: the difference from exp(-x) must be 0.",
    distance,
    1e-6,
    hints=["One line more: an operation on y.", "z = exp(y), and @return(z)"],
    name="written by hand",
)
written.answer(text)

# %%
teach.progress()
