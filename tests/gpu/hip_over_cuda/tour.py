"""Does once, in a process of its own, what a HIP device can do, and prints what came of it as JSON."""

import gc
import json
import time
from collections.abc import Callable

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import Code
from workbench.gpu.devices.hip import HipDevice, found

COUNT = 100_003
TWICE = """
KERNEL(256) twice(const GLOBAL f32 *x, GLOBAL f32 *y, i32 n) {
  i32 i = GROUP(0) * 256 + LOCAL(0);
  if (i < n) y[i] = 2 * x[i];
}
"""
ASTRAY = "KERNEL(1) astray(GLOBAL f32 *x) { x[1ull << 44] = 1; }\n"


def said(call: Callable[[], object]) -> str:
    """The message of the error that a call raises; empty where it raises none."""
    try:
        call()
    except DeviceError as error:
        return str(error)
    return ""


def numbers(device: HipDevice, code: Code) -> dict[str, object]:
    """Copies, a kernel, events and a graph."""
    x = np.arange(COUNT, dtype=np.float32)
    y = np.empty_like(x)
    bytes = x.nbytes
    first, second = device.allocate(bytes + 256), device.allocate(bytes)
    at, to = device.pointer(first, 256, bytes), device.pointer(second, 0, bytes)
    stream = device.stream()
    device.upload(at, x)
    function = device.load(code, "twice")
    grid, block = (-(-COUNT // 256), 1, 1), (256, 1, 1)
    run = device.prepare(function, grid, block, 0, [at, to, COUNT.to_bytes(4, "little")])
    before = device.record(stream)
    run(stream)
    after = device.record(stream)
    device.download(y, to, stream)
    right = bool((y == 2 * x).all())
    seconds, done = device.elapsed(before, after), device.is_done(after)
    device.fill(to, bytes, 0, stream)
    device.synchronize(stream)
    with device.capture(stream) as graphs:
        run(stream)
    device.replay(graphs[0], stream)
    device.download(y, to, stream)
    replayed = bool((y == 2 * x).all())
    device.copy(to, at, bytes, stream)
    device.download(y, to, stream)
    start = time.perf_counter()
    for _ in range(1000):
        run(stream)
    each = (time.perf_counter() - start) / 1000
    device.synchronize(stream)
    facts = device.function_facts(function, 256)
    in_use = device.in_use
    device.free(first)
    device.free(second)
    return {
        "right": right,
        "replayed": replayed,
        "done": done,
        "copied": bool((y == x).all()),
        "seconds": seconds,
        "launch": each,
        "registers": facts.registers,
        "blocks": facts.blocks,
        "in_use": in_use,
        "left": device.in_use,
    }


def errors(device: HipDevice, code: Code) -> dict[str, str]:
    """The messages for mistakes after which the device still works."""
    source = device.dialect.prologue + TWICE.replace("= 2 *", "= two *")

    def interrupted() -> None:
        with device.capture(device.stream()):
            raise DeviceError("in the middle of a capture")

    return {
        "memory": said(lambda: device.allocate(1 << 42)),
        "source": said(lambda: device.compiler.compile(source, "twice")),
        "image": said(lambda: device.load(Code(b"nothing"), "twice")),
        "kernel": said(lambda: device.load(code, "thrice")),
        "index": said(lambda: HipDevice(99)),
        "capture": said(interrupted),
        "stream": said(lambda: device.capture(None).__enter__()),
    }


def astray(device: HipDevice) -> dict[str, str]:
    """The messages for a kernel that leaves its memory, and for what is tried afterwards."""
    code = device.compiler.compile(device.dialect.prologue + ASTRAY, "astray")
    function = device.load(code, "astray")
    buffer = device.allocate(4)
    device.launch(function, (1, 1, 1), (1, 1, 1), 0, [device.pointer(buffer, 0, 4)])
    return {"lost": said(device.synchronize), "after": said(lambda: device.allocate(1 << 20))}


def main() -> None:
    """The tour."""
    device = HipDevice(0)
    code = device.compiler.compile(device.dialect.prologue + TWICE, "twice")
    told: dict[str, object] = {
        "name": device.facts.name,
        "arch": device.facts.arch,
        "warp": device.dialect.warp,
        "version": device.facts.version,
        "devices": len(found()),
        "graphs": device.has_graphs,
        **numbers(device, code),
        "errors": errors(device, code),
        "again": numbers(device, code)["right"],
    }
    gc.collect()
    device.trim()
    told |= {"taken": device.pool.taken, **astray(device)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
