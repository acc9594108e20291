"""Bad calibrations: one argument of an int8 program has a range that is wrong by a factor of 20."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import workbench as wb
from tests.faults.fault import Fault, Plant, Planted, Wanted, effect, tolerance
from tests.models.registry import MODELS
from workbench.numerics.precision import quantize as rounding
from workbench.numerics.precision.calibration import Calibration

KIND = "calibration"
MAGIKA = "jax2tf_get_logits_/pjit_get_logits_/MagikaV2"


def miscalibrated(model: str, node: str, operand: int, factor: float) -> Plant:
    """A build in int8 with one wrong range, against the program in floats.

    Args:
        model: the name of the model.
        node: the node that reads the argument.
        operand: the index among its inputs.
        factor: what the range is multiplied by.
    """

    class Wrong(Calibration):
        """A calibration with one wrong range."""

        @property
        def quant_params(self) -> list[tuple[float, float]]:
            """Multiplier and shift of each argument."""
            pairs = super().quant_params
            where = [r.index for r in self if node in r.sources and r.operand == operand]
            assert len(where) == 1, f"{len(where)} arguments"
            multiplier, shift = pairs[where[0]]
            pairs[where[0]] = multiplier / factor, shift
            return pairs

    @contextmanager
    def plant() -> Iterator[Planted]:
        program, inputs = wb.parse_onnx(MODELS[model].path), MODELS[model].inputs()
        clean = wb.compile(rounding.quantize(program, "int8", inputs), target="cpu")
        with patch.object(rounding, "Calibration", Wrong):
            quantized = rounding.quantize(program, "int8", inputs)
        right = wb.compile(program, target="ref")
        well = Planted(clean, inputs, program, right)
        assert effect(well) <= tolerance(well), "the calibration is bad without the fault, too"
        yield Planted(wb.compile(quantized, target="cpu"), inputs, program, clean)

    return plant


TABLE: dict[str, tuple[str, str, tuple[str, ...], int, float]] = {
    "range_too_small": ("small_cnn", "/block1/Conv_14", ("/block1/Relu_13",), 0, 1 / 20),
    "range_of_weights_too_large": ("small_cnn", "/block0/Conv_7", (), 1, 20),
    "range_of_a_product_too_small": ("small_decoder", "/h.0/MatMul_60", ("/h.0/Gelu_59",), 0, 1 / 20),
    "range_in_a_trained_model_too_small": (
        "magika", f"{MAGIKA}/Dense_1/MatMul", (f"{MAGIKA}/LayerNorm_1/AddV2_1",), 0, 1 / 20,
    ),
}  # fmt: skip
"""For each model the node with a wrong range, the node that makes the value, the operand, the factor."""

FAULTS = [
    Fault(
        name, KIND, model, miscalibrated(model, node, operand, factor),
        Wanted((node, *made_by), ("precision",)),
    )
    for name, (model, node, made_by, operand, factor) in TABLE.items()
]  # fmt: skip
