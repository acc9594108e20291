"""Models changed in one place, compared with the original."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import workbench as wb
from tests.faults.changed import (
    Edit,
    attribute,
    changed,
    dropped_input,
    files,
    operator,
    swapped,
    weight,
)
from tests.faults.fault import Fault, Plant, Planted, Wanted
from tests.models import samples
from tests.models.registry import MODELS, Inputs

KIND = "model"
ATTENTION, FEED = "/encoder/layer.0/attention", "/encoder/layer.0/feed_forward"
FACE = "StatefulPartitionedCall/functional_1"
STFT = "F0::If_0_then_branch__Inline_0__/encoder/1/reparam_conv/Conv"


def programs(
    model: str,
    edit: Edit,
    *both: Edit,
    target: str = "cpu",
    inputs: Callable[[], Inputs] | None = None,
    uncompiled: bool = False,
) -> Plant:
    """A build of the changed model against the original program.

    Args:
        model: the name of the model.
        edit: the fault.
        both: edits of both models, made first.
        target: what the changed model is compiled for.
        inputs: makes the inputs, if they are not the model's.
        uncompiled: whether the changed program is compared, not a build of it.
    """

    @contextmanager
    def plant() -> Iterator[Planted]:
        given = (inputs or MODELS[model].inputs)()
        with files(original=changed(model, *both), changed=changed(model, *both, edit)) as paths:
            original, other = (wb.parse_onnx(paths[k]) for k in ("original", "changed"))
            suspect, clean = (wb.compile(p, target=target) for p in (other, original))
            yield Planted(other if uncompiled else suspect, given, original, clean)

    return plant


def paths(model: str, edit: Edit) -> Plant:
    """The file of the changed model against the file of the original."""

    @contextmanager
    def plant() -> Iterator[Planted]:
        with files(original=changed(model), changed=changed(model, edit)) as found:
            clean = wb.compile(wb.parse_onnx(found["original"]), target="cpu")
            yield Planted(found["changed"], MODELS[model].inputs(), found["original"], clean)

    return plant


def _scaled(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda value: value * factor


def _largest_channel_zeroed(value: np.ndarray) -> np.ndarray:
    value[np.abs(value).reshape(len(value), -1).sum(1).argmax()] = 0
    return value


def _rows_swapped(value: np.ndarray) -> np.ndarray:
    used = samples.tokens(64, 12)["input_ids"][0]
    a, b = used[0], next(i for i in used if i != used[0])
    value[[a, b]] = value[[b, a]]
    return value


def _odd() -> Inputs:
    return {"input_1": samples.photograph(49, 63)}


_AVERAGE = operator("/MaxPool_3", "AveragePool")
_CLIP = operator("/block1/Relu_13", "Clip", 0.0, 6.0)


TABLE: dict[str, tuple[str, str, Plant]] = {
    "weight_scaled": (
        "small_encoder", f"{FEED}/MatMul_53",
        programs("small_encoder", weight("layer.0.down.weight", _scaled(1.05))),
    ),
    "channel_zeroed": (
        "blazeface128", f"{FACE}/conv2d_5/BiasAdd",
        programs("blazeface128", weight(f"{FACE}/conv2d_5/Conv2D/ReadVariableOp:0", _largest_channel_zeroed)),
    ),
    "rows_of_an_embedding_swapped": (
        "small_encoder", "/embeddings/Gather_4",
        programs("small_encoder", weight("embeddings.word", _rows_swapped), target="gpu"),
    ),
    "epsilon_of_a_layer_norm": (
        "small_decoder", "/h.1/LayerNormalization_90",
        programs("small_decoder", attribute("/h.1/LayerNormalization_90", epsilon=0.1)),
    ),
    "epsilon_of_a_batch_norm": (
        "small_cnn", "/block1/BatchNormalization_15",
        programs("small_cnn", attribute("/block1/BatchNormalization_15", epsilon=0.1), target="gpu"),
    ),
    "transpose_perm": (
        "blazeface128", f"{FACE}/conv2d_20/BiasAdd__128",
        programs("blazeface128", attribute(f"{FACE}/conv2d_20/BiasAdd__128", perm=[0, 3, 2, 1])),
    ),
    "softmax_axis": (
        "small_encoder", f"{ATTENTION}/Softmax_30",
        programs("small_encoder", attribute(f"{ATTENTION}/Softmax_30", axis=-2), target="gpu"),
    ),
    "clip_max": (
        "small_cnn", "/block1/Relu_13",
        programs("small_cnn", weight("/block1/Relu_13_constant_1", _scaled(1 / 6)), _CLIP),
    ),
    "bias_dropped": (
        "blazeface128", f"{FACE}/conv2d_8/BiasAdd",
        paths("blazeface128", dropped_input(f"{FACE}/conv2d_8/BiasAdd", 2)),
    ),
    "gelu_by_tanh": (
        "small_decoder", "/h.0/Gelu_59",
        programs("small_decoder", attribute("/h.0/Gelu_59", approximate="tanh")),
    ),
    "padded_on_the_other_side": (
        "mtcnn_p", "p_re_lu/add:0_pooling",
        programs("mtcnn_p", attribute("p_re_lu/add:0_pooling", auto_pad="SAME_LOWER"), inputs=_odd),
    ),
    "pads_of_a_convolution": (
        "silero_16k_static", STFT, paths("silero_16k_static", attribute(STFT, pads=[2, 0])),
    ),
    "average_counts_the_padding": (
        "small_cnn", "/MaxPool_3",
        programs("small_cnn", attribute("/MaxPool_3", count_include_pad=1), _AVERAGE),
    ),
    "sub_swapped": (
        "small_encoder", f"{ATTENTION}/Sub_38",
        programs("small_encoder", swapped(f"{ATTENTION}/Sub_38"), uncompiled=True),
    ),
    "slope_of_a_prelu": (
        "mtcnn_p", "p_re_lu_1",
        programs("mtcnn_p", weight("p_re_lu_1_initializer_6", _scaled(1.5)), target="gpu"),
    ),
    "concat_swapped": (
        "light_squeezenet", "n9", programs("light_squeezenet", swapped("n9"), uncompiled=True),
    ),
    "dilation": (
        "pplcnet_orient", "Conv.5",
        programs("pplcnet_orient", attribute("Conv.5", dilations=[2, 2], pads=[2, 2, 2, 2]), target="ref"),
    ),
    "alpha_of_a_hard_sigmoid": (
        "pplcnet_orient", "HardSigmoid.0",
        paths("pplcnet_orient", attribute("HardSigmoid.0", alpha=0.2)),
    ),
    "scores_divided_twice": (
        "small_encoder", f"{ATTENTION}/Div_28",
        programs("small_encoder", weight(f"{ATTENTION}/constant_18", _scaled(8**0.5))),
    ),
}  # fmt: skip
"""For each fault its model, the changed node, and its planting."""

WEIGHTS = {
    "weight_scaled": ("layer.0.down.weight",),
    "channel_zeroed": (f"{FACE}/conv2d_5/Conv2D/ReadVariableOp:0",),
    "rows_of_an_embedding_swapped": ("embeddings.word",),
    "clip_max": ("/block1/Relu_13_constant_1",),
    "slope_of_a_prelu": ("p_re_lu_1_initializer_6",),
    "scores_divided_twice": (f"{ATTENTION}/constant_18",),
}
"""The tensor that was changed: naming it is as good as naming the node that reads it."""

LONG = ("light_squeezenet", "pplcnet_orient")
"""Models that take seconds; `make nightly` compares them."""

FAULTS = [
    Fault(
        name,
        KIND,
        model,
        plant,
        Wanted((node, *WEIGHTS.get(name, ())), ("model",)),
        slow=model in LONG,
    )
    for name, (model, node, plant) in TABLE.items()
]
