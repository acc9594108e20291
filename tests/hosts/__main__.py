"""The command `python -m tests.hosts PYTHON`: draws every view in the hosts that an interpreter has."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.conftest import CHROMIUM_FLAGS
from tests.hosts import marimo, notebook

HOSTS = {"notebook": notebook.try_all, "marimo": marimo.try_all}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", type=Path, help="an interpreter with the package and the hosts")
    parser.add_argument("--only", choices=HOSTS, help="one host")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        for name, try_all in HOSTS.items():
            if given.only in (None, name):
                start = time.monotonic()
                with tempfile.TemporaryDirectory() as folder:
                    try_all(given.python.absolute(), Path(folder), browser)
                print(f"{name}: every view works ({time.monotonic() - start:.0f} s)")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
