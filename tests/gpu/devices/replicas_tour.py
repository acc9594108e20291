"""Two runs of a session with two replicas on the devices named, as JSON; `test_nccl.py` starts it."""

import json
import sys

import numpy as np

from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops
from workbench.compiler.errors import DeviceError

co = ops.collectives


def graph():
    """An Ir whose variable becomes the sum of the rows of both replicas; no kernel is needed for it."""
    ir = pir.Ir()
    ir.replication_factor = 2
    with ir.main_graph(), pir.in_sequence():
        rows = pir.h2d_stream((2,), pir.float32)
        sums, gathered = pir.d2h_stream((2,), pir.float32), pir.d2h_stream((4,), pir.float32)
        w = pir.variable(np.zeros(2, np.float32), name="w")
        x = ops.host_load(rows)
        total = co.replicated_all_reduce(x)
        ops.host_store(sums, total)
        ops.host_store(gathered, co.replicated_all_gather(x))
        ops.var_updates.copy_var_update_(w, total)
    return ir, rows, sums, gathered, w


def tour(devices):
    ir, rows, sums, gathered, w = graph()
    session = pir.Session(ir, "ipu_model", target="gpu", devices=devices)
    given = np.float32([[1, 2], [10, 20]])
    runs = [session.run({rows: given}) for _ in range(2)]
    assert session.replicas is not None
    table = session.replicas.table()
    try:
        twice = pir.Session(graph()[0], "ipu_model", target="gpu", devices=devices[:1] * 2)
    except DeviceError as error:
        twice = error
    return {
        "sums": [r[sums].tolist() for r in runs],
        "gathered": [r[gathered].tolist() for r in runs],
        "state": session.get_tensor_data(w).tolist(),
        "way": session.replicas.team.way,
        "runs on": table["runs on"].tolist(),
        "kinds": [row.kind for row in session.build.plan()],
        "twice": str(twice),
    }


if __name__ == "__main__":
    print(json.dumps(tour(sys.argv[1:])))
