"""Seeded, realistic inputs: a page of text, a photograph, tokens, the bytes of a file, a sound."""

from pathlib import Path

import numpy as np

SEED = 20
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
WORDS = ("compiler", "reads", "a", "graph", "and", "writes", "it", "again", "every", "node", "kept")


def page(quarter_turns: int = 0, size: int = 224) -> np.ndarray:
    """A page of printed words as PP-LCNet takes it, turned counter-clockwise: [1, 3, 224, 224]."""
    from PIL import Image, ImageDraw, ImageFont

    generator = np.random.default_rng(SEED)
    picture = Image.new("RGB", (size, size), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(14)
    for top in range(8, size - 16, 18):
        line = " ".join(generator.choice(WORDS, 6))
        pen.text((8, top), line, fill="black", font=font)
    pixels = np.asarray(picture.rotate(90 * quarter_turns), np.float32) / 255
    return np.ascontiguousarray(((pixels - MEAN) / DEVIATION).transpose(2, 0, 1)[None])


def photograph(height: int, width: int) -> np.ndarray:
    """A portrait, cropped square about the face: [1, height, width, 3] from -1 to 1."""
    from matplotlib import cbook
    from PIL import Image

    with cbook.get_sample_data("grace_hopper.jpg") as file:
        face = Image.open(file).convert("RGB").crop((80, 20, 430, 370)).resize((width, height))
    return (np.asarray(face, np.float32) / 127.5 - 1)[None]


def image(height: int = 224, width: int = 224, channels: int = 3) -> np.ndarray:
    """Normal noise that varies slowly over the picture, plus fine noise: [1, c, h, w]."""
    generator = np.random.default_rng(SEED)
    coarse = generator.standard_normal((1, channels, 7, 7), dtype=np.float32)
    coarse = coarse.repeat(height // 7 + 1, 2).repeat(width // 7 + 1, 3)[..., :height, :width]
    fine = generator.standard_normal((1, channels, height, width), dtype=np.float32)
    return coarse + np.float32(0.5) * fine


def tokens(vocabulary: int, sequence: int = 128, batch: int = 1) -> dict[str, np.ndarray]:
    """Token ids, and a mask that hides the last quarter of each sequence."""
    generator = np.random.default_rng(SEED)
    mask = np.ones((batch, sequence), np.int64)
    mask[:, sequence * 3 // 4 :] = 0
    ids = generator.integers(0, vocabulary, (batch, sequence), dtype=np.int64)
    return {"input_ids": ids, "attention_mask": mask}


def file_bytes() -> np.ndarray:
    """The bytes of this file as Magika takes them: its first and last 1024, int32 [1, 2048]."""
    data = np.frombuffer(Path(__file__).read_bytes().strip(), np.uint8).astype(np.int32)
    return np.concatenate([data[:1024], data[-1024:]])[None]


def sound(samples: int = 576, rate: int = 16000) -> np.ndarray:
    """A voiced sound: harmonics of 140 Hz with a little noise, [1, samples]."""
    generator = np.random.default_rng(SEED)
    time = np.arange(samples) / rate
    voiced = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12))
    noisy = 0.2 * voiced + 0.01 * generator.standard_normal(samples)
    return noisy.astype(np.float32)[None]
