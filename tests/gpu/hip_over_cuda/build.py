"""Builds HIP's libraries over CUDA, for tests: `python -m tests.gpu.hip_over_cuda.build` prints where."""

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[2] / "build" / "hip_over_cuda"


def compiler() -> str | None:
    """A C compiler, where there is one."""
    return shutil.which("gcc") or shutil.which("cc")


def nvrtc() -> Path | None:
    """The folder of NVRTC, which is the shim's compiler; None where it is not installed."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        found = load_nvidia_dynamic_lib("nvrtc").abs_path
    except (ImportError, RuntimeError, OSError):
        return None
    return Path(found) if found else None


def library(source: Path, to: Path, *options: str) -> Path:
    """A shared library of one C file, put in its place at once: two processes may build it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    new = to.with_name(f"{to.name}.{os.getpid()}")
    command = [compiler() or "cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", *options]
    subprocess.run([*command, "-o", str(new), str(source), "-ldl"], check=True)
    return new.replace(to)


def build(folder: Path = FOLDER) -> Path:
    """The folder that ROCM_PATH names: `lib/` in it has libamdhip64.so and libhiprtc.so."""
    found = nvrtc()
    options = [f"-Wl,-rpath,{found.parent}", f'-DNVRTC_NAME="{found.name}"'] if found else []
    runtime = library(HERE / "shim.c", folder / "lib" / "libamdhip64.so", *options)
    shutil.copyfile(runtime, runtime.with_name("libhiprtc.so"))
    return folder


if __name__ == "__main__":
    print(build())
