"""Rows of kernels as a build hands them to a view, without a device."""

from __future__ import annotations

from typing import Any

SOURCE = """#define GLOBAL
typedef int i32;
KERNEL(256) {name}(GLOBAL const f32 *RESTRICT x0, GLOBAL f32 *RESTRICT y1) {{
    i32 at = get_global_id(0); // one element each
    if (at < 1024) y1[at] = x0[at] * 2.5f + <b>;
}}
"""
MACHINE = """// machine code of a test
{name}:
    1000: push   rbp
    1004: vmulss xmm1,xmm0,DWORD PTR [rip+0x2ff4]
    1010: ret
"""


def row(index: int, id: int, what: str, **given: Any) -> dict[str, Any]:
    """One launch."""
    name = given.pop("name", f"kernel_{index}")
    found: dict[str, Any] = {
        "id": id, "ids": [id], "instruction": f"@{id}", "what": what, "name": name, "ms": None,
        "share": None, "bytes": 4096 * (index + 1), "flops": 1000, "grid": "4", "block": "256",
        "items": 1024, "registers": None, "shared": 0, "local": 0, "spills": None, "blocks": None,
        "occupancy": None, "code": 5000, "sources": [f"/layer{index}/Node"],
        "source": SOURCE.format(name=name), "prologue": 2, "module": f"@{id} = {what}(x) -> float_type\n",
        "log": "", "search": "", "assembly": lambda: MACHINE.format(name=name),
    }  # fmt: skip
    return found | given


def rows() -> list[dict[str, Any]]:
    """Four launches of three kernels; two are of one instruction."""
    return [
        row(0, 7, "add · relu", ms=0.5, share=0.25, ids=[7, 20, 21], registers=30),
        row(1, 9, "reduce_sum", ms=1.25, share=0.625, registers=16, shared=1024, blocks=4, occupancy=0.5),
        row(2, 9, "reduce_sum", ms=0.05, share=0.025, registers=12),
        row(3, 12, "<script>alert(1)</script>", ms=0.2, share=0.1, registers=30, name="kernel_0"),
    ]  # fmt: skip
