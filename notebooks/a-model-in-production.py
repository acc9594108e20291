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
# # A model in production
#
# One compiled model, many callers. Here you run it from several threads, replace its weights while it runs, see its streams over time, launch its
# kernels as one graph, measure what it can take, and write it out for a server.
#
# It needs [01-first-look](01-first-look.ipynb), and a target `gpu`, which may be the CPU through OpenCL. It takes about 30 minutes.

# %% [markdown]
# ## 1. A model with constants
#
# The graph is written in AITemplate's words. A tensor that is neither an input nor a result is a constant: the model keeps the values that it is
# given. The number of rows is a range.

# %%
from threading import Event, Thread

import numpy as np

import workbench as wb
from workbench.compat.aitemplate.frontend import IntVar, Tensor, compile_model, ops

WIDTH, HIDDEN, CLASSES = 64, 128, 10
x = Tensor([IntVar([1, 16], "rows"), WIDTH], "x", dtype="float32", is_input=True)
w1, b1 = Tensor([HIDDEN, WIDTH], "w1", dtype="float32"), Tensor([HIDDEN], "b1", dtype="float32")
w2, b2 = Tensor([CLASSES, HIDDEN], "w2", dtype="float32"), Tensor([CLASSES], "b2", dtype="float32")
hidden = ops.gemm_rcr_bias_relu()(x, w1, b1)
scores = ops.softmax()(ops.gemm_rcr_bias()(hidden, w2, b2), -1)
scores._attrs.update(name="scores", is_output=True)


def weights(seed):
    random = np.random.default_rng(seed)
    shapes = {"w1": (HIDDEN, WIDTH), "b1": (HIDDEN,), "w2": (CLASSES, HIDDEN), "b2": (CLASSES,)}
    return {n: 0.1 * random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


old, new = weights(1), weights(2)
model = compile_model(scores, "gpu", "", "scores", constants=old, num_runtimes=4)
print(model.build.runner.name, model.get_num_runtimes(), "runtimes")

# %% [markdown]
# Inputs and results may be arrays of NumPy or tensors on the device. Results are as large as they can get, and a run returns the part that it filled.

# %%
rows = np.random.default_rng(0).standard_normal((5, WIDTH)).astype(np.float32)
room = np.empty(model.get_output_maximum_shape("scores"), np.float32)
found = model.run_with_tensors({"x": rows}, {"scores": room})["scores"]
print("room", room.shape, "found", found.shape, "sums", found.sum(1).round(5))


# %% [markdown]
# ## 2. New weights while it runs
#
# A run reads one set of constants from its beginning to its end. New ones go to a second buffer; `swap_constants` makes them the ones that runs
# from then on read. Four threads run the model meanwhile, and each result has to be that of the old weights or of the new ones.

# %%
def meaning(x, w):
    hidden = np.maximum(x @ w["w1"].T + w["b1"], 0)
    powers = np.exp(hidden @ w["w2"].T + w["b2"])
    return powers / powers.sum(1, keepdims=True)


wanted = [meaning(rows, w) for w in (old, new)]
done, counts = Event(), {"old": 0, "new": 0, "wrong": 0}


def caller():
    mine, stream = np.empty_like(room), model.new_stream()
    while not done.is_set():
        found = model.run_with_tensors([rows], [mine], stream)["scores"]
        right = [np.allclose(found, w, atol=1e-5) for w in wanted]
        counts["old" if right[0] else "new" if right[1] else "wrong"] += 1


callers = [Thread(target=caller) for _ in range(4)]
for thread in callers:
    thread.start()
for k in range(1, 20):
    model.set_many_double_buffer_constants_with_tensors((old, new)[k % 2])
    model.fold_constants(double_buffer=True)
    model.swap_constants()
done.set()
for thread in callers:
    thread.join()
print(counts)

# %% [markdown]
# ## 3. Streams over time
#
# A stream is a queue of work; what is in different ones may run at once. Each runtime has its own memory, so as many runs as there are runtimes are in
# progress together. Here is when each kernel of each run was at work, on the device's clock.

# %%
timeline = wb.serve_timeline(model, streams=4, runs=3, inputs={"x": rows}, progress=False)
print(timeline.summary)
timeline.table().head(4)

# %% [markdown]
# Runs take turns in colour. The kernels of one instruction stand out if you select it, by its id or name. `timeline.save_trace(path)` writes the same
# for Perfetto.

# %%
slowest = timeline.table().groupby("name")["ms"].sum().idxmax()
timeline.plot(selected=slowest);

# %% [markdown]
# ## 4. One launch for all kernels
#
# A GPU starts a small kernel in less time than the host needs to launch it. `graph_mode` captures the launches of a run once, and then launches all of
# them at once. CUDA and HIP have graphs; elsewhere a warning says that kernels are launched one by one, and the numbers stay the same.

# %%
for graph in (False, True):
    load = wb.serve_bench(
        model, streams=[1], seconds=0.1, graph_mode=graph, inputs={"x": rows}, progress=False
    ).loads[0]
    print(f"graph_mode={graph}: {load.row()['p50 ms']:.3f} ms a run")
print("the device has graphs:", model.has_graphs)

# %% [markdown]
# ## 5. What it can take
#
# `serve_bench` runs the model from several threads, each with a stream of its own, and says how many samples a second come out and how long a caller
# waits. More streams help until the device is busy; after that, callers only wait longer. A larger batch shares the cost of a launch.

# %%
bench = wb.serve_bench(model, streams=[1, 2, 4], batches=[1, 16], seconds=0.1, progress=False)
bench.table().round(3)

# %%
print(bench.summary)
bench.plot();

# %% [markdown]
# ## 6. To a server
#
# `save` writes a folder with the programs, the constants and the compiled kernels. `write_repository` puts such a folder where Triton Inference
# Server looks for models of its Python backend. `workbench export --serve FOLDER MODEL` does the same for a file.

# %%
import tempfile

from workbench.compat.triton import write_repository

with tempfile.TemporaryDirectory() as folder:
    made = write_repository(model, folder, "scores", runtimes=4)
    print(*sorted(str(p.relative_to(folder)) for p in made.rglob("*") if p.is_file()), sep="\n")
    print((made / "config.pbtxt").read_text())

# %%
model.close()
