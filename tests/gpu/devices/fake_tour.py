"""A tour through CudaDevice on the fake driver, printed as JSON; `test_cuda.py` starts it."""

import json
from functools import partial

import numpy as np

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.base import Code
from workbench.gpu.devices.cuda import CudaDevice

CUBIN = Code(b"\x7fELF a kernel that the fake driver knows")


def error(call):
    try:
        call()
    except DeviceError as said:
        return str(said)
    return ""


def tour():
    device = CudaDevice()
    twice = device.load(CUBIN, "twice")
    array = np.arange(1000, dtype=np.float32)
    buffer = device.allocate(8192)
    x, y = device.pointer(buffer, 0, 4000), device.pointer(buffer, 4096, 4000)
    device.upload(x, array)
    run = device.prepare(twice, (4, 1, 1), (256, 1, 1), 0, [x, y, np.int32(1000).tobytes()])
    first = device.record()
    run(None)
    last = device.record()
    back = np.empty_like(array)
    device.download(back, y)
    stream = device.stream()
    device.fill(x, 4000, 0, stream)
    with device.capture(stream) as captured:
        run(stream)
    device.replay(captured[0], stream)
    again = np.empty_like(array)
    device.download(again, y, stream)
    facts = device.function_facts(twice, 256)
    astray = device.load(CUBIN, "astray")
    told = {
        "name": device.facts.name,
        "arch": device.facts.arch,
        "warp": device.facts.warp,
        "right": bool((back == 2 * array).all()),
        "replayed": bool((again == 0).all()),
        "seconds": device.elapsed(first, last),
        "registers": facts.registers,
        "blocks": facts.blocks,
        "in_use": device.in_use,
        "errors": {
            "memory": error(partial(device.allocate, 1 << 42)),
            "image": error(partial(device.load, Code(b"junk"), "twice")),
            "kernel": error(partial(device.load, CUBIN, "thrice")),
            "index": error(partial(CudaDevice, 99)),
            "shared": error(partial(device.prepare, twice, (1, 1, 1), (1, 1, 1), 1 << 20, [])),
        },
    }
    device.launch(astray, (1, 1, 1), (1, 1, 1), 0, [])
    told["lost"] = error(device.synchronize)
    told["after"] = error(partial(device.allocate, 1 << 20))
    device.free(buffer)
    del twice, astray, run, captured, stream
    device.trim()
    return told | {"left": device.in_use, "taken": device.pool.taken}


if __name__ == "__main__":
    print(json.dumps(tour()))
