"""Removal of identities."""

from __future__ import annotations

from workbench.compiler.ir.module import Instruction
from workbench.compiler.passes.base import RewritePass, register
from workbench.compiler.rewrite import Decline, Rewriter, op, rule, var


@rule(op("identity", var("x")), dynamic=True)
def find_identity(b: Rewriter, x: Instruction) -> Instruction | Decline:
    """identity(x) → x"""
    root = b.root
    shared = x.parameter is not None or x.only_user is not root or x.module is not root.module
    if root is root.module.last and shared:
        return Decline("it is the module's last instruction, and its input has other users")
    return x


@register
class EliminateIdentity(RewritePass):
    """Remove identities."""

    name = "eliminate_identity"
    rules = (find_identity,)
