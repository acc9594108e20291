"""The drop-in on every model: MIGraphX's instructions, onnxruntime's numbers, files that are the program."""

import numpy as np
import pytest

from tests.models.registry import Model
from tests.models.test_files import parameters
from tests.models.test_models import expected, relative_rms
from workbench.compat import migraphx


def reloaded(program: migraphx.program) -> migraphx.program:
    return migraphx.load_buffer(migraphx.save_buffer(program))


@pytest.mark.parametrize("model", parameters())
def test_a_model_is_read_saved_compiled_and_run(model: Model):
    inputs = model.inputs()
    lens = {name: list(value.shape) for name, value in inputs.items() if value.shape}
    program = migraphx.parse_onnx(str(model.path), map_input_dims=lens)
    assert reloaded(program) == program
    program.compile(migraphx.get_target("cpu"))
    loaded = reloaded(program)
    assert loaded == program
    results = program.run(inputs)
    assert loaded.run(inputs) == results
    _, wanted = expected(model.name)
    for found, value in zip(results, wanted, strict=True):
        assert relative_rms(np.asarray(found).reshape(value.shape), value) <= model.tolerance
