"""Operations that standard ONNX has no meaning for, and why."""

from __future__ import annotations

from workbench.compiler.onnx.write.registry import refuses

refuses(
    {
        "@outline": "of this value only the shape is known",
        "outline": "of this value only the shape is known",
        "unknown:": "the model's operator is not known, so neither is what it means",
        **dict.fromkeys(
            ("all_gather", "all_reduce", "reduce_scatter"),
            "it combines values of several runs of a model, and ONNX has one run",
        ),
        "load": "it reads bytes of a buffer, which ONNX does not have",
        "pack_fp4": "ONNX has no bytes of two 4-bit floats",
        "unpack_fp4": "ONNX has no bytes of two 4-bit floats",
        "random_uniform": "ONNX draws other random numbers from the same seed",
        "multinomial": "ONNX's Multinomial draws numbers of its own",
        "tree_ensemble": "the trees are those of the domain ai.onnx.ml, not of standard ONNX",
        "count_ngrams": "its n-grams are operands, and ONNX's TfIdfVectorizer has them as attributes",
        "lookup": "its keys are operands, and ONNX has no such table",
        "couple_pairs": "the probabilities are those of the domain ai.onnx.ml, not of standard ONNX",
    }
)
