"""Architectures of torchvision, timm and transformers through both doors, against eager."""

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch") if False else None
