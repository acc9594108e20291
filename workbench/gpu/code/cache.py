"""Compilation of kernels, and the cache of code objects on disk, one file each, named by a hash."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from pathlib import Path
from queue import SimpleQueue

from workbench.compiler.errors import DeviceError
from workbench.compiler.progress import progress_bar
from workbench.gpu.code.cache_folder import cache_folder, keep, kept, trim
from workbench.gpu.devices.base import Code, Compiler
from workbench.gpu.kernels.kernel import Kernel

_MAGIC = b"workbench code 1\n"
_HEAD = struct.Struct("<QQQ32s")


class Expected:
    """Tells a compiler of the kernels that will have to be compiled, while others are still made.

    Args:
        compiler: The compiler of the device.
        known: The names of kernels that need not be compiled.
    """

    def __init__(self, compiler: Compiler, known: Collection[str] = ()) -> None:
        """Expect none."""
        self._compiler = compiler
        self._known = set(known)
        self._missing = 0
        self._is_useful = compiler.expect(0)
        self._folder = cache_folder("kernels") if self._is_useful else None

    def add(self, kernel: Kernel) -> None:
        """Expect a kernel, unless the cache has it."""
        if not self._is_useful or kernel.name in self._known:
            return
        self._known.add(kernel.name)
        if not (self._folder and _path(self._folder, kernel, self._compiler).exists()):
            self._missing += 1
            self._compiler.expect(self._missing)


def compiled(
    kernels: Iterable[Kernel], compiler: Compiler, progress: bool | None = None
) -> dict[str, Code]:
    """The code of each kernel, by name: from the cache, or compiled by several threads at once.

    Args:
        kernels: The kernels to compile; equal ones are compiled once.
        compiler: The compiler of the device.
        progress: Show a progress bar; None shows one after the first second.

    Raises:
        DeviceError: A source does not compile.
    """
    wanted: dict[str, Kernel] = {}
    for kernel in kernels:
        if wanted.setdefault(kernel.name, kernel).source != kernel.source:
            raise DeviceError(f"two kernels with different sources are named {kernel.name!r}")
    folder = cache_folder("kernels")
    found: dict[str, Code] = {}
    missing: list[Kernel] = []
    for kernel in wanted.values():
        code = read(_path(folder, kernel, compiler)) if folder else None
        if code is None:
            missing.append(kernel)
        else:
            found[kernel.name] = code
    found.update(_compiled(missing, compiler, folder, progress))
    return found


def _compiled(
    kernels: list[Kernel], compiler: Compiler, folder: Path | None, progress: bool | None
) -> dict[str, Code]:
    if not kernels:
        return {}
    found: dict[str, Code] = {}
    with compiler.team(len(kernels)) as team, ThreadPoolExecutor(len(team)) as pool:
        idle = SimpleQueue[Compiler]()
        for one in team:
            idle.put(one)
        longest_first = sorted(kernels, key=lambda k: len(k.source), reverse=True)
        futures = {
            pool.submit(copy_context().run, _compile_by_one, k, idle): k for k in longest_first
        }
        try:
            with progress_bar(list(futures), progress, "compile kernels") as shown:
                done = as_completed(futures)
                for _ in shown:
                    future = next(done)
                    kernel = futures[future]
                    found[kernel.name] = future.result()
                    if folder:
                        write(_path(folder, kernel, compiler), found[kernel.name])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if folder:
        trim(folder)
    return found


def _compile_by_one(kernel: Kernel, idle: SimpleQueue[Compiler]) -> Code:
    """The code of one kernel, from the compiler of a team that is idle."""
    compiler = idle.get()
    try:
        return compile_one(kernel, compiler)
    finally:
        idle.put(compiler)


def compile_one(kernel: Kernel, compiler: Compiler) -> Code:
    """The code of one kernel, from its source."""
    return compiler.compile(compiler.dialect.prologue + kernel.source, kernel.name)


def _path(folder: Path, kernel: Kernel, compiler: Compiler) -> Path:
    text = f"{compiler.key}\n{compiler.dialect.prologue}{kernel.source}"
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()}.code"


def read(path: Path) -> Code | None:
    """The code in a file; None if the file is missing or damaged."""
    data = kept(path)
    if data is None or not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + _HEAD.size:
        return None
    body = data[len(_MAGIC) + _HEAD.size :]
    *sizes, digest = _HEAD.unpack_from(data, len(_MAGIC))
    if sum(sizes) != len(body) or hashlib.sha256(body).digest() != digest:
        return None
    log, assembly = sizes[0], sizes[0] + sizes[1]
    return Code(body[assembly:], _text(body[:log]), _text(body[log:assembly]))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def write(path: Path, code: Code) -> None:
    """Write code to a file of the cache."""
    log, assembly = code.log.encode(), code.assembly.encode()
    body = log + assembly + code.binary
    sizes = (len(log), len(assembly), len(code.binary))
    head = _MAGIC + _HEAD.pack(*sizes, hashlib.sha256(body).digest())
    keep(path, head + body)
