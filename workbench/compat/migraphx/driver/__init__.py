"""MIGraphX's driver as ``workbench driver <command> …``, with the same commands and options."""

from __future__ import annotations

from workbench.compat.migraphx.driver.main import main

__all__ = ["main"]
