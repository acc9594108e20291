"""The contract of writing: XLA runs what is written, and reading it back gives the same program's values."""

import re

import numpy as np
import pytest

from tests.compiler.ops.test_module_operations import CASES as MODULE_CASES
from tests.compiler.ops.test_operations import OPERATIONS, SAMPLED
from tests.compiler.variants import cases, expect_close, said
from tests.onnx.write.test_operations import evaluated, program_of
from workbench.compiler.errors import ModelError
from workbench.compiler.stablehlo.write import to_stablehlo
from workbench.compiler.stablehlo.write.registry import refused, written

pytestmark = [pytest.mark.jax, pytest.mark.filterwarnings("ignore")]

# Samples of written operations that are refused: how many, and a word of the reason.
LENGTHS = "only a run knows"
REFUSED_SAMPLES = {
    **{f"reduce_{k}": (1, LENGTHS) for k in ("all", "any", "max", "mean", "min", "prod", "sum")},
    "as_shape": (2, "have no layout"), "broadcast_with_dims": (2, LENGTHS), "onehot": (1, LENGTHS),
    "reshape_with_dims": (3, LENGTHS), "slice": (3, LENGTHS), "topk": (1, "equal elements"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def wide():
    import jax

    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def expect_same(program, inputs):
    from tests.stablehlo.agreement import run_by_xla
    from workbench.compiler.stablehlo import parse_stablehlo

    text = to_stablehlo(program)
    wanted = evaluated(program, inputs)
    arguments = [np.asarray(inputs[n]) for n in program.parameters]
    for found in (run_by_xla(text, arguments), evaluated(parse_stablehlo(text), inputs)):
        for a, b in zip(wanted, found, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            expect_close(b, a, a.dtype, str(program))


@pytest.mark.parametrize("name", sorted(set(SAMPLED) & set(written())))
def test_samples_are_run_by_xla_and_read_back(name: str):
    reasons: list[str] = []
    for op, operands in cases(name):
        try:
            expect_same(
                program_of(op, operands), {f"x{i}": x.array for i, x in enumerate(operands)}
            )
        except ModelError as error:
            reasons.append(str(error))
        except AssertionError as error:
            raise AssertionError(said(op, operands)) from error
    count, word = REFUSED_SAMPLES.get(name, (0, ""))
    assert [word in r for r in reasons] == [True] * count, reasons


@pytest.mark.parametrize("case", sorted(MODULE_CASES))
def test_modules_become_functions_and_regions(case: str):
    program, inputs, _ = MODULE_CASES[case]()
    reasons = [refused()[i.name] for i in program.main if i.name in refused()]
    if reasons:
        with pytest.raises(ModelError, match=re.escape(reasons[0])):
            to_stablehlo(program)
    else:
        expect_same(program, inputs)


def test_the_dialect_verifies_what_is_written():
    from workbench.compiler.stablehlo.reader import of_bytes

    program = program_of(*cases("convolution")[0])
    assert of_bytes(to_stablehlo(program).encode(), "it").operation.verify()
    assert set(SAMPLED) - set(written()) - set(refused()) == set()
    assert len(OPERATIONS) > 150
