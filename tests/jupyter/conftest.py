"""One JupyterLab for the tests of this folder."""

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from tests.jupyter import lab as laboratory


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Generator[laboratory.Lab]:
    """A running JupyterLab."""
    with laboratory.running(tmp_path_factory.mktemp("lab"), chromium) as running:
        yield running
