"""Operations that are not written as StableHLO, and why."""

from __future__ import annotations

from workbench.compiler.stablehlo.write.registry import refuses

_TUPLES = "StableHLO has no sequences and no values that may be missing"
_OPEN = "the lens of its result follows from its elements, and StableHLO's are fixed"
_STEPS = "the pass rewrite_rnn spells it out; compile with it, and write that program"
_RESIZE = "the pass rewrite_resize spells it out; compile with it, and write that program"
_EFFECT = "it orders work on a device, and has no value"
_MEMORY = "it is about bytes in memory, which StableHLO does not show"
_BITS = "StableHLO's elements of fewer than 8 bits are not those of our packed bytes"
_RARE = "StableHLO has no such operation, and its formula is not written"

refuses(
    {
        **dict.fromkeys(["@outline", "outline"], "of this value only the shape is known"),
        "unknown:": "the model's operator is not known, so neither is what it means",
        **dict.fromkeys(
            ["sequence_at", "sequence_construct", "sequence_erase", "sequence_insert", "sequence_length",
             "split_to_sequence", "concat_from_sequence", "optional", "optional_get_element",
             "optional_has_element", "undefined"], _TUPLES),
        **dict.fromkeys(["nonzero", "unique", "nonmaxsuppression", "dynamic_range"], _OPEN),
        **dict.fromkeys(
            ["rnn", "lstm", "gru", "rnn_last_cell_output", "rnn_last_hs_output", "rnn_var_sl_last_output",
             "rnn_var_sl_shift_output", "rnn_var_sl_shift_sequence"], _STEPS),
        "resize": _RESIZE,
        **dict.fromkeys(["set_stream", "record_event", "wait_event", "@comment"], _EFFECT),
        **dict.fromkeys(["load", "allocate", "preallocate", "capture"], _MEMORY),
        **dict.fromkeys(["pack_fp4", "unpack_fp4", "pack_int4", "unpack_int4", "cast_to"], _BITS),
        **dict.fromkeys(
            ["random_uniform", "random_seed", "multinomial"],
            "StableHLO draws other random numbers from the same seed"),
        **dict.fromkeys(
            ["concat_past_present", "count_ngrams", "couple_pairs", "deform_convolution", "det", "dft",
             "gqa_rotary_embedding", "im2col", "image_decode", "lookup", "max_roi_pool",
             "roialign", "tree_ensemble"], _RARE),
        **dict.fromkeys(
            ["all_gather", "all_reduce", "reduce_scatter"],
            "collectives between replicas are not written yet"),
        **dict.fromkeys(
            ["expect_dims", "fixed_pad", "pad_by", "select_module"],
            "it is about lengths that only a run knows; fix them first"),
    }
)  # fmt: skip
