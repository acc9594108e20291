"""Models of Hugging Face's transformers in local folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.compiler.errors import ModelError
from workbench.compiler.torch import FromTorch, from_torch
from workbench.compiler.torch.installed import torch

TOKENS = 8
"""The length of example texts."""


def from_pretrained(
    path: str | Path,
    *,
    batch: int = 1,
    length: int = TOKENS,
    dynamic_shapes: Any = None,
    **inputs: Any,
) -> FromTorch:
    """The program of a model that ``save_pretrained`` wrote: a folder with its configuration and weights.

    ``transformers`` builds the module and reads the weights from safetensors files; nothing is downloaded,
    and no code of the folder runs. Example inputs are made from the configuration.

    Args:
        path: The folder.
        batch: The number of examples.
        length: The tokens of each example of a text.
        dynamic_shapes: The lengths that stay open, by the input's name, as `from_torch` takes them.
        **inputs: Tensors in place of the examples, by the names of ``forward``.

    Raises:
        ModelError: torch, transformers or safetensors is missing, the folder has no model, its architecture
            is unknown, or the module is not supported.
    """
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{path}: no config.json there; expected a folder that save_pretrained wrote"
        )
    module = _module(folder)
    examples = inputs or _examples(module, batch, length)
    return from_torch(module, (), examples, dynamic_shapes=dynamic_shapes)


def _module(folder: Path) -> Any:
    """The module of a folder, with its weights.

    Raises:
        ModelError: It cannot be read.
    """
    torch("safetensors")
    library = torch("transformers")
    try:
        config = library.AutoConfig.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
        name = next(iter(config.architectures or ()), "AutoModel")
        kind = getattr(library, name, None)
        if kind is None:
            raise ModelError(f"{folder}: transformers has no architecture {name!r}")
        if hasattr(config, "use_cache"):
            config.use_cache = False
        module = kind.from_pretrained(
            str(folder), config=config, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{folder}: {error}") from error
    return module.eval()


def _examples(module: Any, batch: int, length: int) -> dict[str, Any]:
    """Inputs of the kind that the module names as its main one.

    Raises:
        ModelError: No example can be made of that kind.
    """
    api, config, name = torch(), module.config, module.main_input_name
    generator = api.Generator().manual_seed(0)
    if name == "input_ids":
        most = getattr(config, "vocab_size", 2)
        found = {name: api.randint(min(3, most - 1), most, (batch, length), generator=generator)}
        if getattr(config, "is_encoder_decoder", False):
            found["decoder_input_ids"] = found[name]
        return found
    if name == "pixel_values":
        return {name: api.randn(batch, *_image(config), generator=generator)}
    if name == "input_features":
        frames = 2 * config.max_source_positions
        found = {name: api.randn(batch, config.num_mel_bins, frames, generator=generator)}
        return {**found, "decoder_input_ids": api.ones(batch, 1, dtype=api.int64)}
    if name == "input_values":
        return {name: api.randn(batch, 4000, generator=generator)}
    raise ModelError(f"no example for inputs of the kind {name!r}; give one by its name")


def _image(config: Any) -> tuple[int, int, int]:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    return getattr(vision, "num_channels", 3), height, width
