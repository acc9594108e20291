"""The devices that the tests of this folder run on."""

import pytest

from workbench.compiler.errors import DeviceError
from workbench.gpu.devices.registry import device as chosen

KINDS = [
    "opencl",
    pytest.param("cuda", marks=pytest.mark.gpu),
    pytest.param("hip", marks=pytest.mark.gpu),
]


@pytest.fixture(params=KINDS)
def device(request):
    """Each kind of device; afterwards nothing may be left in use that was not before."""
    try:
        device = chosen(request.param)
    except DeviceError as error:
        if request.param == "opencl":
            raise
        pytest.skip(str(error))
    before = device.in_use
    yield device
    assert device.in_use == before
