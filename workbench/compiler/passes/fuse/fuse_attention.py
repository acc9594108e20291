"""Fusion of attention: two products of matrices, and the softmax between them, as one group."""

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
    """instructions → the order in which results need them"""
    module.sort()


find_flash_decoding = flash_decoding(Splitting())


@register
class FuseAttention(RewritePass):
    """Attention becomes one group: scores, their softmax and the product with the values.

    A softmax must have been rewritten by ``rewrite_reduce`` before. Modules are sorted, so that what a
    group needs stands right before it.

    Attributes:
        attn_enabled: Fuse attention without a cache, too.
        flash_decoding_enabled: Split attention to many keys into parts, worked on side by side.
        flash_decoding_num_splits: The number of parts; 0 finds one for each length.
        flash_decoding_threshold: Keys from which on they are split, where a number is found.
        flash_decoding_max_splits: Parts at which no more are made.
        flash_decoding_min_chunk_size: Keys of a part that are not divided any more.
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
        """The rules of the steps that the options ask for."""
        split = self.flash_decoding_enabled or self.flash_decoding_num_splits > 0
        switched = {"find_attention": self.attn_enabled, "find_flash_decoding": split}
        return tuple(r for r in self.rules if switched.get(r.name, True))

    def apply(self, program: Program) -> None:
        """Fuse attention with a cache, then without, then split it, as far as wanted."""
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
