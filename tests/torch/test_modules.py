"""Programs as modules of PyTorch, and models of local folders."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.errors import InputError, ModelError

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    return torch


def test_a_program_is_a_module(torch):
    program = wb.trace(lambda x, w: ((x @ w).relu(), x.sum()), x=(2, 3), w=(3, 4))
    module = wb.to_torch(program, target="cpu")
    x, w = torch.randn(2, 3), torch.randn(3, 4)
    product, total = module(x, w=w)
    torch.testing.assert_close(product, torch.relu(x @ w))
    torch.testing.assert_close(total, x.sum())
    with pytest.raises(InputError, match="'x' is given twice"):
        module(x, x=x, w=w)
    with pytest.raises(InputError, match="3 arguments; expected 2: x, w"):
        module(x, w, w)


def test_a_module_comes_back_and_keeps_its_state(torch):
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    x = torch.randn(5, 4)
    module = wb.to_torch(wb.from_torch(net, (x,)), target="cpu")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(module(x), net(x))
    torch.testing.assert_close(module.state_dict()["1_running_var"], net[1].running_var)


def test_gradients_are_refused_with_the_way_to_them(torch):
    module = wb.to_torch(wb.trace(lambda x: x.relu(), x=(2,)), target="ref")
    with pytest.raises(InputError, match=r"'x' requires a gradient.*torch\.no_grad"):
        module(torch.ones(2, requires_grad=True))


def _saved(folder, name, model, **options):
    import transformers

    config = getattr(transformers, f"{name}Config")(**options)
    made = getattr(transformers, model)(config).eval()
    made.save_pretrained(folder)
    return made


def test_a_folder_of_a_text_model_runs(torch, tmp_path):
    from tests.torch.architectures import declare_operators

    declare_operators()
    made = _saved(tmp_path, "Bert", "BertForMaskedLM", vocab_size=31, **SMALL)
    tokens = torch.arange(6).reshape(1, 6)
    program = wb.from_pretrained(tmp_path, input_ids=tokens)
    (found,) = wb.compile(program, "cpu").run({"input_ids": tokens.numpy()}).values()
    np.testing.assert_allclose(found, made(tokens).logits.detach(), 1e-4, 1e-5)
    assert wb.from_pretrained(tmp_path, batch=3, length=5).parameters["input_ids"].lens == (3, 5)


def test_a_folder_of_an_image_model_runs(torch, tmp_path):
    from tests.torch.architectures import declare_operators

    declare_operators()
    made = _saved(
        tmp_path, "ViT", "ViTForImageClassification", image_size=16, patch_size=8, **SMALL
    )
    program = wb.from_pretrained(tmp_path)
    assert program.parameters["pixel_values"].lens == (1, 3, 16, 16)
    image = torch.randn(1, 3, 16, 16)
    (found,) = wb.compile(program, "cpu").run({"pixel_values": image.numpy()}).values()
    np.testing.assert_allclose(found, made(image).logits.detach(), 1e-4, 1e-5)


def test_a_folder_with_an_unknown_architecture_is_refused(tmp_path):
    from tests.torch.architectures import declare_operators

    declare_operators()
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["Nothing"]}')
    with pytest.raises(ModelError, match="no architecture 'Nothing'"):
        wb.from_pretrained(tmp_path)
