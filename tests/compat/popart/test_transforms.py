"""Merged exchanges, and scripts that import popart."""

from pathlib import Path

import numpy as np
import pytest

from tests.compat.popart.programs import as_script, types
from workbench.compat.popart import __main__ as command
from workbench.compat.popart import ir as pir
from workbench.compat.popart.ir import ops
from workbench.compat.popart.ir.transforms import io_tile_exchange, merge_exchange


def test_loads_and_stores_become_one_exchange_that_still_runs() -> None:
    """Those made inside the block, whatever uses them in between."""
    ir = pir.Ir()
    with ir.main_graph() as main:
        ops.host_store(pir.d2h_stream((), pir.float32, "before"), pir.constant(1.0))
        source, target = pir.h2d_stream((), pir.float32), pir.d2h_stream((), pir.float32, "inside")
        with merge_exchange():
            x = ops.host_load(source, "x") + 1
            ops.host_store(target, pir.constant(2.0))
            row = ops.remote_load(pir.remote_buffer((), pir.float32, 1), 0)
        after = pir.d2h_stream((), pir.float32, "after")
        ops.host_store(after, x + row)
    expected = ["HostStore", "Init", "Init", "MultiExchange", "Add", "Add", "HostStore"]
    assert types(main) == expected
    assert [p.op_type for p in main.ops()[3].parts] == ["HostLoad", "HostStore", "RemoteLoad"]
    rows = pir.Session(ir).run({source: np.array(5, np.float32)})
    assert (rows[target], rows[after]) == (2, 6)


def test_an_exchange_on_the_tiles_for_input_and_output() -> None:
    """One operation of a sequence around it; two that need one another are refused."""
    ir = pir.Ir()
    with ir.main_graph() as main, pir.in_sequence():
        buffer = pir.remote_buffer((), pir.float32, 2)
        _ = pir.constant(1.0) + 1
        with io_tile_exchange():
            loaded = ops.remote_load(buffer, 0)
            ops.remote_store(buffer, 1, pir.constant(1.0))
        last = ops.relu(loaded)
        assert types(main) == ["Add", "Init", "MultiExchange", "Relu"]
        exchange = main.ops()[2]
        assert exchange.tile_set == loaded.tile_set == "io"
        assert last.producer is not None
        assert exchange in last.producer.in_sequence
        assert main.ops()[0] in exchange.in_sequence
        with (
            pytest.raises(
                RuntimeError, match=r"^More than one Op remained after `io_tile_exchange`"
            ),
            io_tile_exchange(),
        ):
            ops.remote_store(buffer, 0, ops.remote_load(buffer, 0))
        with io_tile_exchange(verify_overlap=False):
            ops.remote_store(buffer, 0, ops.remote_load(buffer, 0))


def test_unordered_uses_of_a_remote_buffer_give_a_warning() -> None:
    """They run in the order in which they were made."""
    ir = pir.Ir()
    with ir.main_graph():
        buffer = pir.remote_buffer((), pir.float32, 1)
        ops.remote_store(buffer, 0, pir.constant(4.0))
        found = pir.d2h_stream((), pir.float32)
        ops.host_store(found, ops.remote_load(buffer, 0))
    with pytest.warns(UserWarning, match=r"nothing fixes their order"):
        session = pir.Session(ir)
    assert session.run()[found] == 4


SCRIPT = """
import sys
import popart
import popart.ir as pir
import popart.ir.ops as ops
from popart.ir.tensor import Variable, subgraph_input
from popart.ir.errors import UndefinedValue
from popart.ir.ops.utils import check_tensor_ipu_and_tile_set

with pir.Ir().main_graph() as main:
    assert isinstance(pir.variable(1), Variable) and issubclass(popart.popart_exception, RuntimeError)
    check_tensor_ipu_and_tile_set(a=main.get_variables()[0])
    ops.collectives.all_reduce([ops.negate(main.get_variables()[0])])
print([op.op_type for op in main.ops()], sys.argv[1:])
"""


def test_a_script_that_imports_popart_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its arguments; no script is an error."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    with as_script():
        assert command.main([str(path), "--flag"]) == 0
    assert capsys.readouterr().out == "['Neg', 'AllReduce'] ['--flag']\n"
    assert [command.main(a) for a in ([str(tmp_path / "none.py")], [], ["-m"], ["--help"])] == [
        2,
        2,
        2,
        0,
    ]
