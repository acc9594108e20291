"""Full-size networks exported from transformers with seeded random weights (needs torch).

Each is the published architecture; only the weights are random, drawn so that every parameter
matters: norms and biases are away from 1 and 0, batch-norm statistics are those of seeded
inputs, attention is peaked rather than uniform.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

OPSET = 20
SEED = 20
SEQUENCE = 128
SPREAD = 0.04  # of the weights of transformers: wide enough that attention is peaked


def _randomise(module: "torch.nn.Module") -> None:
    """Moves vectors (biases, scales of norms) away from the zeros and ones they start at."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)


def _tensor_only(inner: "torch.nn.Module", names: tuple[str, ...], field: str) -> "torch.nn.Module":
    """A module that takes `names` by position and returns `field` of the inner one's output."""
    import torch

    class Wrapped(torch.nn.Module):
        """The exported wrapper: tensors in, one tensor out."""

        def __init__(self) -> None:
            super().__init__()
            self.model = inner

        def forward(self, *arguments: "torch.Tensor") -> "torch.Tensor":
            return self.model(**dict(zip(names, arguments, strict=True)))[field]

    return Wrapped().eval()


def save(
    module: "torch.nn.Module", arguments: dict[str, Any], field: str, path: Path, **options: Any
) -> None:
    """Exports a transformers module through dynamo; the graph input names are those given."""
    import torch

    names = tuple(arguments)
    wrapped = _tensor_only(module, names, field)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            wrapped,
            tuple(arguments.values()),
            str(path),
            dynamo=True,
            external_data=False,
            opset_version=OPSET,
            input_names=list(names),
            output_names=[field],
            **options,
        )


def images(batch: int = 1) -> "torch.Tensor":
    """Seeded images, as a normalised photograph is distributed."""
    import torch

    return torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(SEED))


def tokens(vocabulary: int, batch: int = 1) -> dict[str, Any]:
    """Seeded token ids and a mask that hides the last quarter of each sequence."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    ids = torch.randint(0, vocabulary, (batch, SEQUENCE), generator=generator)
    mask = torch.ones(batch, SEQUENCE, dtype=torch.int64)
    mask[:, SEQUENCE * 3 // 4 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def calibrated_resnet50(divisor: int = 1) -> "torch.nn.Module":
    """ResNet-50 v1 (stride in the first 1x1 of a bottleneck) with calibrated batch norms.

    A divisor makes every layer so many times narrower.
    """
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        layer_type="bottleneck",
        depths=[3, 4, 6, 3],
        embedding_size=64 // divisor,
        hidden_sizes=[n // divisor for n in (256, 512, 1024, 2048)],
        downsample_in_bottleneck=True,
        num_labels=1000,
    )
    module = ResNetForImageClassification(config)
    _randomise(module)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None  # the statistics are the mean over the batches seen
    module.train()
    with torch.no_grad():
        module(images(8))
    return module.eval()


def networks() -> dict[str, tuple["torch.nn.Module", dict[str, Any]]]:
    """The networks that are measured beside PyTorch, each with its arguments by name."""
    from transformers import BertConfig, BertModel, ViTConfig, ViTForImageClassification

    bert = BertModel(BertConfig(initializer_range=SPREAD), add_pooling_layer=False)
    vit = ViTForImageClassification(ViTConfig(initializer_range=SPREAD, num_labels=1000))
    image = {"pixel_values": images()}
    return {
        "resnet50": (calibrated_resnet50(), image),
        "bert_base": (bert.eval(), tokens(30522)),
        "gpt2_small": (_gpt2().eval(), tokens(50257)),
        "vit_base": (vit.eval(), image),
    }


def resnet50(path: Path) -> None:
    """ResNet-50 v1 as the exporter writes it: batch norms folded into convolutions."""
    save(calibrated_resnet50(), {"pixel_values": images()}, "logits", path)


def resnet50_raw(path: Path) -> None:
    """ResNet-50 v1 with the exporter's own optimiser off: batch norms, zero biases built by ops."""
    save(calibrated_resnet50(), {"pixel_values": images()}, "logits", path, optimize=False)


def resnet50_dynamic(path: Path) -> None:
    """ResNet-50 v1 with a dynamic batch."""
    _export_images(calibrated_resnet50(), path)


def resnet50_narrow(path: Path) -> None:
    """ResNet-50 v1 with a sixteenth of the channels: the same graph, small weights."""
    save(calibrated_resnet50(16), {"pixel_values": images()}, "logits", path)


def bert_base(path: Path) -> None:
    """BERT-base (12 layers, width 768): token ids and attention mask to hidden states."""
    _bert(path)


def bert_base_dynamic(path: Path) -> None:
    """BERT-base with a dynamic batch and sequence."""
    from transformers import BertConfig, BertModel

    config = BertConfig(initializer_range=SPREAD)
    module = BertModel(config, add_pooling_layer=False)
    _randomise(module)
    _export_tokens(module, config.vocab_size, 512, "last_hidden_state", path)


def bert_narrow(path: Path) -> None:
    """BERT with the layers and heads of BERT-base at a sixteenth of its width, few words."""
    _bert(path, vocab_size=1000, hidden_size=48, intermediate_size=192, initializer_range=0.16)


def _bert(path: Path, **changes: Any) -> None:
    """Exports a BERT encoder."""
    from transformers import BertConfig, BertModel

    config = BertConfig(**{"initializer_range": SPREAD} | changes)
    module = BertModel(config, add_pooling_layer=False)
    _randomise(module)
    save(module, tokens(config.vocab_size), "last_hidden_state", path)


def _gpt2() -> "torch.nn.Module":
    """A small GPT-2: 6 layers, width 384, the real vocabulary."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=6, n_embd=384, n_head=6, n_positions=256, use_cache=False, initializer_range=SPREAD
    )
    module = GPT2LMHeadModel(config)
    _randomise(module)
    return module


def gpt2_small(path: Path) -> None:
    """The small GPT-2: token ids and attention mask to logits, shapes fixed."""
    save(_gpt2(), tokens(50257), "logits", path)


def gpt2_dynamic(path: Path) -> None:
    """The same GPT-2 with a dynamic batch and sequence, so shapes are computed in the graph."""
    _export_tokens(_gpt2(), 50257, 256, "logits", path)


def _export_tokens(
    module: "torch.nn.Module", vocabulary: int, length: int, field: str, path: Path
) -> None:
    """Exports a transformer that takes tokens in any number of sequences, up to a length."""
    import torch

    batch, sequence = torch.export.Dim("batch", max=16), torch.export.Dim("sequence", max=length)
    arguments = {k: torch.cat([v, v]) for k, v in tokens(vocabulary).items()}
    shapes = (({0: batch, 1: sequence}, {0: batch, 1: sequence}),)
    save(module, arguments, field, path, dynamic_shapes=shapes)


def _export_images(module: "torch.nn.Module", path: Path) -> None:
    """Exports a classifier of any number of images."""
    import torch

    shapes = (({0: torch.export.Dim("batch", max=16)},),)
    save(module, {"pixel_values": images(2)}, "logits", path, dynamic_shapes=shapes)


def vit_base(path: Path) -> None:
    """ViT-base/16 at 224 x 224: an image to 1000 logits."""
    from transformers import ViTConfig, ViTForImageClassification

    module = ViTForImageClassification(ViTConfig(initializer_range=SPREAD, num_labels=1000))
    _randomise(module)
    save(module, {"pixel_values": images()}, "logits", path)


def vit_base_dynamic(path: Path) -> None:
    """ViT-base/16 with a dynamic batch."""
    from transformers import ViTConfig, ViTForImageClassification

    module = ViTForImageClassification(ViTConfig(initializer_range=SPREAD, num_labels=1000))
    _randomise(module)
    _export_images(module, path)


EXPORTS: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        resnet50,
        resnet50_raw,
        resnet50_dynamic,
        resnet50_narrow,
        bert_base,
        bert_base_dynamic,
        bert_narrow,
        gpt2_small,
        gpt2_dynamic,
        vit_base,
        vit_base_dynamic,
    )
}


def create(name: str, path: Path) -> None:
    """Exports the named network to `path`, the same weights every time.

    Raises:
        RuntimeError: torch or transformers is missing.
    """
    try:
        import torch
        import transformers  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        message = (
            f"{name} is exported from torch: install the `models` extra ({error.name} is missing)"
        )
        raise RuntimeError(message) from error
    torch.manual_seed(SEED)
    EXPORTS[name](path)
