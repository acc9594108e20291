"""Architectures of torchvision, timm and transformers: small, with random weights, and their inputs."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A module in evaluation mode, its arguments, and those by keyword."""

# Names of torchvision's models, the lengths of their images, and options that make them smaller.
VISION: dict[str, tuple[int, dict[str, Any]]] = {
    "alexnet": (64, {}), "vgg11_bn": (64, {}), "resnet18": (64, {}), "resnext50_32x4d": (64, {}),
    "squeezenet1_1": (64, {}), "densenet121": (64, {}), "googlenet": (64, {"init_weights": False}),
    "inception_v3": (96, {"init_weights": True, "aux_logits": False}), "mobilenet_v2": (64, {}),
    "mobilenet_v3_small": (64, {}), "shufflenet_v2_x0_5": (64, {}), "mnasnet0_5": (64, {}),
    "efficientnet_b0": (64, {}), "regnet_y_400mf": (64, {}), "convnext_tiny": (64, {}),
    "vit_b_32": (64, {"image_size": 64}), "swin_t": (64, {}), "swin_v2_t": (64, {}),
    "maxvit_t": (224, {}),
}  # fmt: skip
SEGMENTATION = {"lraspp_mobilenet_v3_large": 64, "deeplabv3_mobilenet_v3_large": 64}

# Names of timm's models, and the lengths of their images.
TIMM = {
    "resnetv2_50": 64, "efficientnetv2_rw_t": 64, "mixer_s32_224": 224, "deit_tiny_patch16_224": 224,
    "convmixer_768_32": 64, "ghostnet_100": 64, "repvgg_a0": 64, "poolformer_s12": 64, "mobileone_s0": 64,
    "edgenext_xx_small": 64, "tf_efficientnet_lite0": 64, "hrnet_w18_small": 64,
}  # fmt: skip

_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_DECODER = {**_SMALL, "vocab_size": 101, "num_key_value_heads": 2, "pad_token_id": 0}
_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101}

_BERT = {**_SMALL, "vocab_size": 101}
_OPT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 101}
_DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 101}

# Models of transformers by their configuration, and options that make them small.
TEXT: dict[str, tuple[str, dict[str, Any]]] = {
    "Bert": ("BertModel", _BERT),
    "Roberta": ("RobertaForMaskedLM", _BERT),
    "DistilBert": ("DistilBertModel", _DISTIL),
    "Albert": ("AlbertModel", {**_BERT, "embedding_size": 16}),
    "Electra": ("ElectraModel", {**_BERT, "embedding_size": 16}),
    "GPT2": ("GPT2LMHeadModel", _GPT),
    "GPTNeoX": ("GPTNeoXForCausalLM", _BERT),
    "OPT": ("OPTForCausalLM", {**_OPT, "vocab_size": 101, "word_embed_proj_dim": 32}),
    "Llama": ("LlamaForCausalLM", _DECODER),
    "Mistral": ("MistralForCausalLM", _DECODER),
    "Qwen2": ("Qwen2ForCausalLM", _DECODER),
    "Gemma": ("GemmaForCausalLM", {**_DECODER, "head_dim": 8}),
    "Phi": ("PhiForCausalLM", {**_DECODER, "num_key_value_heads": 4}),
    "Bloom": (
        "BloomForCausalLM",
        {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 101},
    ),
    "T5": ("T5EncoderModel", _T5),
    "MPNet": ("MPNetModel", _BERT),
}
PIXELS: dict[str, tuple[str, dict[str, Any]]] = {
    "ViT": ("ViTModel", {**_SMALL, "image_size": 32, "patch_size": 8}),
    "Dinov2": ("Dinov2Model", {**_SMALL, "image_size": 32, "patch_size": 8}),
    "CLIPVision": ("CLIPVisionModel", {**_SMALL, "image_size": 32, "patch_size": 8}),
    "Segformer": ("SegformerModel", {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}),
}  # fmt: skip


def architectures() -> dict[str, Callable[[], Made]]:
    """The function that makes each architecture, by its package and name; nothing is imported yet."""
    return {
        **{f"torchvision/{n}": partial(_vision, n, *given) for n, given in VISION.items()},
        **{f"torchvision/{n}": partial(_segmentation, n, k) for n, k in SEGMENTATION.items()},
        **{f"timm/{n}": partial(_timm, n, k) for n, k in TIMM.items()},
        **{f"transformers/{m}": partial(_text, n, m, o) for n, (m, o) in TEXT.items()},
        **{f"transformers/{m}": partial(_pixels, n, m, o) for n, (m, o) in PIXELS.items()},
    }


def declare_operators() -> None:
    """Let torchvision be imported where torch is built without CUDA and torchvision with it.

    Its operators cannot be loaded then, and it refuses to be imported. The models here need none of
    them, so declarations are enough.
    """
    import torch

    for name in ("nms", "qnms"):
        try:
            import_module("torchvision")
        except RuntimeError:
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            LIBRARIES.append(library)


LIBRARIES: list[Any] = []
"""Declarations, which last as long as these."""


def _image(length: int) -> tuple[Any, ...]:
    import torch

    return (torch.randn(2, 3, length, length, generator=torch.Generator().manual_seed(1)),)


def _vision(name: str, length: int, options: dict[str, Any]) -> Made:
    declare_operators()
    torchvision = import_module("torchvision")
    made = torchvision.models.get_model(name, weights=None, **options)
    return _settled(made, _image(length)), _image(length), {}


def _segmentation(name: str, length: int) -> Made:
    declare_operators()
    torchvision = import_module("torchvision")
    made = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    return _settled(made, _image(length)), _image(length), {}


def _filled(module: Any) -> Any:
    """A module in evaluation mode, with random weights for those that are all zeros."""
    import torch

    for weight in module.parameters():
        if weight.ndim > 1 and not weight.any():
            torch.nn.init.normal_(weight, std=0.1)
    return module.eval()


def _settled(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module whose batch norms know the statistics of an input, so that values keep their size."""
    import torch

    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = 1.0
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        module.train()(*[torch.randn(8, *x.shape[1:], generator=draw) for x in inputs])
        for norm in norms:
            norm.running_var.clamp_(min=0.05)
    return _filled(module)


def _timm(name: str, length: int) -> Made:
    declare_operators()
    timm = import_module("timm")
    return _filled(timm.create_model(name)), _image(length), {}


def _of_config(name: str, model: str, options: dict[str, Any]) -> Any:
    declare_operators()
    transformers = import_module("transformers")
    config = getattr(transformers, f"{name}Config")(**options)
    config.use_cache = False
    return getattr(transformers, model)(config).eval()


def _text(name: str, model: str, options: dict[str, Any]) -> Made:
    import torch

    tokens = torch.arange(3, 17).reshape(2, 7)
    return _of_config(name, model, options), (), {"input_ids": tokens}


def _pixels(name: str, model: str, options: dict[str, Any]) -> Made:
    return _of_config(name, model, options), (), {"pixel_values": _image(32)[0]}
