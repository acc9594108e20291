"""Fusion of attention: two matrix products and the softmax between them as one group."""

from __future__ import annotations

from workbench.compiler.ir.module import Module
from workbench.compiler.ir.program import Program
from workbench.compiler.passes.base import RewritePass, open_modules, register
from workbench.compiler.passes.fuse.attention.flash_decoding import Splitting, flash_decoding
from workbench.compiler.passes.fuse.attention.kv_cache import find_kv_cache_attention
from workbench.compiler.passes.fuse.attention.recognition import find_attention
from workbench.compiler.rewrite import Rule, drive, law


@law
def sort_modules(module: Module) -> None:
    """instructions → the same, sorted by dependence"""
    module.sort()


find_flash_decoding = flash_decoding(Splitting())


@register
class FuseAttention(RewritePass):
    """Attention becomes one group: scores, their softmax and the product with the values.

    ``rewrite_reduce`` must have decomposed softmax before. Modules are sorted, so that a group's producers
    stand right before it.

    Attributes:
        attn_enabled: Also fuse attention without a cache.
        flash_decoding_enabled: Split attention to many keys into parts that run in parallel.
        flash_decoding_num_splits: The number of parts; 0 chooses one for each length.
        flash_decoding_threshold: The fewest keys that are split, if the number of parts is chosen.
        flash_decoding_max_splits: Stop splitting at this number of parts.
        flash_decoding_min_chunk_size: Stop splitting at parts of this many keys or fewer.
    """

    name = "fuse_attention"
    rules = (
        find_kv_cache_attention,
        find_attention,
        find_flash_decoding,
    )
    attn_enabled: bool = False
    flash_decoding_enabled: bool = False
    flash_decoding_num_splits: int = 0
    flash_decoding_threshold: int = 32
    flash_decoding_max_splits: int = 16
    flash_decoding_min_chunk_size: int = 32

    @property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the options select."""
        split = self.flash_decoding_enabled or self.flash_decoding_num_splits > 0
        switched = {"find_attention": self.attn_enabled, "find_flash_decoding": split}
        return tuple(r for r in self.rules if switched.get(r.name, True))

    def apply(self, program: Program) -> None:
        """Fuse attention with a cache, then without, then split it, as the options say."""
        program.numbers.clear()
        for one in self.rules:
            if one in self.active:
                drive(program, (self._with_options(one),))
            if one is not find_flash_decoding:
                _sort(program)

    def _with_options(self, one: Rule) -> Rule:
        if one is not find_flash_decoding:
            return one
        return flash_decoding(
            Splitting(
                self.flash_decoding_num_splits,
                self.flash_decoding_threshold,
                self.flash_decoding_max_splits,
                self.flash_decoding_min_chunk_size,
            )
        )


def _sort(program: Program) -> None:
    with program.edit(sort_modules, None):
        for module in open_modules(program):
            module.sort()
