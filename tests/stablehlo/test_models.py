"""Networks of flax, their gradients and a training step: from JAX, through passes, to StableHLO and back."""

import numpy as np
import pytest

import workbench as wb

pytestmark = [pytest.mark.jax, pytest.mark.filterwarnings("ignore")]

NAMES = ["cnn", "transformer", "lstm", "gru", "autoencoder"]


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("name", NAMES)
def test_networks_agree_with_jax(name: str, target: str):
    from tests.stablehlo.agreement import expect_agreement
    from tests.stablehlo.models import MODULES, forward

    assert sorted(MODULES) == sorted(NAMES)
    expect_agreement(*forward(name), target=target)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_agree_with_jax(name: str):
    from tests.stablehlo.agreement import expect_agreement
    from tests.stablehlo.models import gradient

    expect_agreement(*gradient(name), target="cpu")


def test_a_step_of_training_agrees_with_jax():
    from tests.stablehlo.agreement import expect_agreement
    from tests.stablehlo.models import training

    program = expect_agreement(*training(), target="cpu")
    assert "output1.params.Conv_0.kernel" in program.output_names


@pytest.mark.parametrize("passes", [(), "optimize", "gpu"])
@pytest.mark.parametrize("name", NAMES)
def test_networks_are_written_run_by_xla_and_read_back(name: str, passes):
    from tests.stablehlo import agreement
    from tests.stablehlo.models import forward

    function, arguments = forward(name)
    program = wb.from_jax(function, *arguments)
    inputs = program.arguments(*arguments)
    compiled = wb.compile(program, target="ref", passes=passes).program if passes else program
    text = wb.to_stablehlo(compiled)
    assert ("func.call" in text) == bool(passes)
    wanted = agreement.expected(function, arguments)
    agreement.expect_close(agreement.run_by_xla(text, list(inputs.values())), wanted)
    again = wb.parse_stablehlo(text)
    assert again.output_names == program.output_names
    assert list(again.parameters) == list(program.parameters)
    agreement.expect_close(agreement.results(wb.compile(again, target="ref"), inputs), wanted)


@pytest.mark.parametrize("name", ["cnn", "lstm"])
def test_gradients_are_written_and_run_by_xla(name: str):
    from tests.stablehlo import agreement
    from tests.stablehlo.models import gradient

    function, arguments = gradient(name)
    program = wb.from_jax(function, *arguments)
    text = wb.to_stablehlo(wb.compile(program, target="cpu").program)
    found = agreement.run_by_xla(text, list(program.arguments(*arguments).values()))
    agreement.expect_close(found, agreement.expected(function, arguments))


def test_our_gradient_of_an_imported_network_is_jaxs():
    import jax

    from tests.stablehlo.models import forward

    function, (variables, x) = forward("lstm")
    program = wb.from_jax(lambda v, y: (function(v, y) ** 2).sum(), variables, x)
    names = [n for n in program.parameters if "kernel" in n]
    slopes = wb.gradient(program, names)
    found = list(wb.compile(slopes, target="ref").run(program.arguments(variables, x)).values())
    tree = jax.grad(lambda v: (function(v, x) ** 2).sum())(variables)
    by_name = dict(zip(list(program.parameters)[:-1], jax.tree.leaves(tree), strict=True))
    for value, name in zip(found[-len(names) :], names, strict=True):
        np.testing.assert_allclose(value, by_name[name], rtol=1e-4, atol=1e-5)
