"""The contract of importing: what jax.numpy, jax.lax and jax.nn lower to gives JAX's own results."""

import pytest

pytestmark = [pytest.mark.jax, pytest.mark.filterwarnings("ignore")]

FAMILIES = [
    "unary",
    "binary",
    "movement",
    "indexing",
    "reduction",
    "matrix",
    "control",
    "gradients",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_agree_with_jax(family: str):
    from tests.stablehlo import programs
    from tests.stablehlo.agreement import expect_agreement

    assert sorted(programs.FAMILIES) == sorted(FAMILIES)
    wrong: list[str] = []
    for name, (function, arguments) in programs.FAMILIES[family].items():
        try:
            expect_agreement(function, arguments)
        except Exception as error:  # all of them are listed
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    assert wrong == []


def test_every_handler_is_tried():
    """Each operation with a handler is in some function of the table, or in the list here with a reason."""
    from tests.stablehlo import programs
    from workbench.compiler.stablehlo import from_jax, operators, registry

    tried: set[str] = set()
    plain = registry.find

    def find(name: str):
        tried.add(name)
        return plain(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "find", find)
        for function, arguments in programs.CASES.values():
            from_jax(function, *arguments)
    untried = {
        "stablehlo.cbrt", "stablehlo.tuple", "stablehlo.composite", "stablehlo.custom_call", "stablehlo.if",
        "stablehlo.logistic", "chlo.is_inf", "chlo.is_neg_inf", "chlo.is_pos_inf", "chlo.tan",
        "stablehlo.bitcast_convert", "stablehlo.optimization_barrier",
    }  # fmt: skip
    assert set(operators()) - tried <= untried
