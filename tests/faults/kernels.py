"""Wrong code of the target: expressions of operations, and the loops and indices of kernels."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import workbench as wb
from tests.faults.changed import Edit, changed, files, weight
from tests.faults.fault import Fault, Plant, Planted, Wanted
from tests.faults.planting import expression, kernel
from tests.models import samples
from tests.models.registry import MODELS, Inputs
from workbench.compiler.ops.elementary import Erf, Exp, Sigmoid, Tanh
from workbench.compiler.ops.pointwise import Prelu, Sqrt

KIND = "kernel"
DEVICE = "opencl"
"""The dialect's kernels differ by device, and the texts that are sought are those for a processor."""
ATTENTION, FEED = "/encoder/layer.0/attention", "/encoder/layer.0/feed_forward"
STFT = "F0::If_0_then_branch__Inline_0__"
LSTM = "F2::If_0_then_branch__Inline_0__/decoder/rnn/LSTM"


def under(
    model: str,
    wrong: Callable[[], AbstractContextManager[Any]],
    *both: Edit,
    inputs: Callable[[], Inputs] | None = None,
    reference: str = "ref",
) -> Plant:
    """A build made while something of the target is wrong, against the reference.

    Args:
        model: the name of the model.
        wrong: makes the target wrong while it is open.
        both: edits of the model.
        inputs: makes the inputs, if they are not the model's.
        reference: the target of the reference; a build for it, unless it is `ref`.
    """

    @contextmanager
    def plant() -> Iterator[Planted]:
        given = (inputs or MODELS[model].inputs)()
        with files(model=changed(model, *both)) as found:
            program = wb.parse_onnx(found["model"])
        clean = wb.compile(program, target="gpu", device=DEVICE).specialised(given)
        with wrong() as names:
            suspect = wb.compile(program, target="gpu", device=DEVICE)
            suspect.specialised(given)
            assert names is None or names, "no kernel was changed"
            other = "ref" if reference == "ref" else wb.compile(program, target=reference)
            yield Planted(suspect, given, other, clean)

    return plant


def _kernel(node: str, *changes: tuple[str, str], before: str = "") -> Any:
    return lambda: kernel(node, *changes, before=before)


def _expression(kind: Any, text: str) -> Any:
    return lambda: expression(kind, text)


def _square() -> Inputs:
    return {"input_1": samples.photograph(48, 48)}


def _large(value: Any) -> Any:
    return value * 100


_LAST = (r"(l\d+) < (\d+); \1 \+= 1", r"\1 < \2 - 1; \1 += 1")
_TURNED = (r"144 \* (l\d+) \+ 3 \* (l\d+)", r"3 * \1 + 144 * \2")
_EXP = (r"\bexp\(", "tempered(")
_TEMPERED = "DEVICE f32 tempered(f32 x) { return exp(0.95f * x); }\n"
_NORM = "/embeddings/ReduceMean_6"

EXPRESSIONS: dict[str, tuple[str, tuple[str, ...], Plant]] = {
    "tanh": (
        "small_encoder", ("/pooler/Tanh_118",),
        under("small_encoder", _expression(Tanh, "({} * 0.99f)"), reference="cpu"),
    ),
    "erf": (
        "small_encoder", (f"{FEED}/Erf_49", "/encoder/layer.1/feed_forward/Erf_99"),
        under("small_encoder", _expression(Erf, "({} + 0.01f)")),
    ),
    "sigmoid": (
        "silero_16k_static", (LSTM, f"{STFT}/decoder/decoder/3/Sigmoid"),
        under("silero_16k_static", _expression(Sigmoid, "(({}) * 0.98f)")),
    ),
    "exp": ("mtcnn_p", ("softmax",), under("mtcnn_p", _expression(Exp, "pow({}, 0.98f)"))),
    "sqrt": (
        "silero_16k_static", (f"{STFT}/stft/Sqrt",),
        under("silero_16k_static", _expression(Sqrt, "({} * 1.01f)")),
    ),
    "prelu": (
        "mtcnn_p", ("p_re_lu", "p_re_lu_1", "p_re_lu_2"),
        under("mtcnn_p", _expression(Prelu, "(({}) * 1.02f)")),
    ),
}  # fmt: skip
"""For each operation whose expression is wrong a model, its nodes of that operation, and the planting."""

LOOPS: dict[str, tuple[str, str, Plant]] = {
    "reduction_drops_the_last": (
        "small_cnn", "/GlobalAveragePool_27",
        under("small_cnn", _kernel("/GlobalAveragePool_27", _LAST)),
    ),
    "softmax_without_the_maximum": (
        "mtcnn_p", "softmax",
        under("mtcnn_p", _kernel("softmax", (r" - r0;", ";")), weight("conv2d_3/kernel:0", _large)),
    ),
    "product_one_short": (
        "small_cnn", "/Gemm_29",
        under("small_cnn", _kernel("/Gemm_29", (r"(k\d*) < (\d+); \+\+k", r"\1 < \2 - 1; ++k"))),
    ),
    "window_one_short": (
        "small_cnn", "/MaxPool_3",
        under("small_cnn", _kernel("/MaxPool_3", ("l2 < 3;", "l2 < 2;")), reference="cpu"),
    ),
    "attention_tempered": (
        "small_encoder", f"{ATTENTION}/Softmax_30",
        under("small_encoder", _kernel(f"{ATTENTION}/Softmax_30", _EXP, before=_TEMPERED)),
    ),
    "view_turned": (
        "mtcnn_p", "conv2d",
        under("mtcnn_p", _kernel("conv2d", _TURNED), inputs=_square),
    ),
    "first_row_is_padding": (
        "small_cnn", "/block2/Conv_23",
        under("small_cnn", _kernel("/block2/Conv_23", (r"- 1 >= 0", "- 1 >= 1"))),
    ),
    "gather_of_the_next_row": (
        "small_encoder", "/embeddings/Gather_4",
        under("small_encoder", _kernel("/embeddings/Gather_4", (r"= x1\[i0\]", "= x1[i0] + 1"))),
    ),
    "mean_of_too_many": (
        "small_encoder", _NORM, under("small_encoder", _kernel(_NORM, (r"\* 0\.03125f", "* 0.03f"))),
    ),
}  # fmt: skip
"""For each wrong kernel its model, the node of the model, and its planting."""

FAULTS = [
    *(
        Fault(f"expression_of_{name}", KIND, model, plant, Wanted(nodes, ("kernel",)))
        for name, (model, nodes, plant) in EXPRESSIONS.items()
    ),
    *(
        Fault(name, KIND, model, plant, Wanted((node,), ("kernel",)))
        for name, (model, node, plant) in LOOPS.items()
    ),
]
