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
# # Build a graph by hand and differentiate it
#
# Differentiation is a pass like any other: it goes through a program from the last instruction to the first and appends the gradient of each.
# Here you write a small network, watch that pass, check its numbers, and do the same in the terms of PopART.
#
# It needs lesson 02. It takes about 30 minutes.

# %% [markdown]
# ## 1. A program and its gradient
#
# Values have NumPy's operators. The program returns one number, so its gradient is well defined.

# %%
import numpy as np

import workbench as wb


def network(x, w, v, goal):
    hidden = (x @ w).tanh()
    error = hidden @ v - goal
    return (error * error).mean()


program = wb.trace(network, x=(8, 4), w=(4, 6), v=(6, 1), goal=(8, 1))
print(program)

# %% [markdown]
# `wb.gradient` makes a copy that also returns the gradients of the values that you name.

# %%
gradient = wb.gradient(program, wrt=["w", "v"])
print(gradient.output_names)
gradient

# %% [markdown]
# ## 2. The pass, edit by edit
#
# Each edit differentiates one instruction. Its law is the chain rule; its instructions come from the same line of Python as the instruction that
# they differentiate, so both stand together under "from" in the inspector. Step through the edits with the arrow keys.

# %%
gradient.recording.explore()

# %% [markdown]
# ## 3. Is it right?
#
# A gradient is a limit of differences. Move one weight a little in either direction, in double precision, and compare.

# %%
random = np.random.default_rng(0)
inputs = {
    name: random.standard_normal(shape.lens).astype(np.float32)
    for name, shape in program.parameters.items()
}
loss, of_w, of_v = wb.compile(gradient, target="cpu").run(inputs).outputs

exact = wb.compile(program, target="ref")


def moved(by):
    w = inputs["w"].astype(np.float64)
    w[1, 2] += by
    return float(exact.run({**inputs, "w": w.astype(np.float32)}, precision="float64")[0])


step = 1e-3
print("difference", (moved(step) - moved(-step)) / (2 * step))
print("gradient  ", of_w[1, 2])

# %% [markdown]
# ## 4. What gradients cost
#
# The forward values that the backward part reads stay in memory until it has read them. In a chain of equal blocks that is most of the memory.
# A call of a module can be a checkpoint: with `recompute=True` its values are computed again where its gradient is.


# %%
def block(x):
    return ((x.tanh() * 1.5).sigmoid() * 2.0).tanh()


b = wb.Builder("blocks")
x = y = b.input("x", (256, 256))
for _ in range(8):
    y = b.call(block, y)
chain = b.program(y.mean())

for recompute in (False, True):
    build = wb.compile(wb.gradient(chain, recompute=recompute), target="ref")
    memory = build.memory()
    print(f"recompute={recompute}: {memory.peak / 1e6:.1f} MB")

# %% [markdown]
# ## 5. The same in PopART's terms
#
# `popart.ir` builds graphs by tracing Python functions. `autodiff` makes the gradient graph of a graph, and says how the two connect.

# %%
from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops
from workbench.compat.popart.ir.transforms import autodiff


def layer(x, w):
    return ops.gelu(x @ w)


ir = pir.Ir()
with ir.main_graph():
    stream = pir.h2d_stream((8, 4), pir.float32, name="x")
    x = ops.host_load(stream)
    w = pir.variable(inputs["w"], name="w")
    graph = ir.create_graph(layer, x, w)
    call = ops.call_with_info(graph, x, w)
    backward = autodiff(graph)
    print(backward)
    seed = pir.constant(np.ones((8, 6), np.float32))
    connected = backward.get_inputs_from_forward_call_info(call)
    of_x, of_w = ops.call(backward.graph, seed, subgraph_in_to_parent_in=connected)
    out = pir.d2h_stream(of_w.shape, of_w.dtype, name="of_w")
    ops.host_store(out, of_w)

session = pir.Session(ir, "cpu")
print(session.run({stream: inputs["x"]})[out].round(3))

# %% [markdown]
# The records of the gradient graph, and the program that the whole became, in the usual views:

# %%
for op in backward.graph.ops():
    print(op.op_type, "→", ", ".join(t.name for t in op.outputs))
ir.workbench

# %% [markdown]
# ## Go on
#
# - Declare the gradient of an operation of your own: `wb.operation(..., gradient=...)`, [docs/gradients.md](../docs/gradients.md).
# - Train a network with these gradients: [train-a-digit-classifier](train-a-digit-classifier.ipynb).
