"""MIGraphX's driver on our command line: ``workbench driver <command> …``, the same commands and options."""

from __future__ import annotations

from workbench.compat.migraphx.driver.main import main

__all__ = ["main"]
