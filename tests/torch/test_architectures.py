"""Architectures of torchvision, timm and transformers through both doors, against eager."""

import pytest

from tests.torch.architectures import architectures

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("name", architectures())
def test_an_architecture_equals_eager_through_both_doors(name):
    from tests.torch.measured import measured

    row = measured(name)
    assert row.agrees, row.line()
    assert row.largest > 1e-3, "the results say nothing"
    assert row.graphs == 1
