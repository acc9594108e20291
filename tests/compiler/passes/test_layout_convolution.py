"""Layouts of convolutions of any rank, and their padding, in the passes for GPUs and for CPUs."""

import numpy as np
import pytest

import workbench as wb
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.passes.pipelines import gpu


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 6])
@pytest.mark.parametrize("is_cpu", [True, False])
def test_channels_are_last_and_padding_stays_on_cpus_alone(rank: int, group: int, is_cpu: bool):
    program, random = Program(), np.random.default_rng(rank)
    main = program.main
    x = main.add_parameter("x", Shape("float", (2, 6, *[7] * rank)))
    w = main.add_literal(random.standard_normal((12, 6 // group, *[3] * rank)).astype(np.float32))
    once = (1,) * rank
    options = {"padding": (*once, *[2] * rank), "stride": once, "dilation": once, "group": group}
    main.add_return(main.add("convolution", x, w, **options))
    build = wb.compile(program, "cpu", passes=gpu(channels_last=is_cpu))
    (found,) = (i for i in build.program.main if i.name == "convolution")
    assert (found.inputs[0].shape.strides[1] == 1) == is_cpu
    assert any(i.name == "pad" for i in build.program.main) != is_cpu
    given = {"x": random.standard_normal((2, 6, *[7] * rank)).astype(np.float32)}
    wanted = wb.compile(program, "ref").run(given)[0]
    np.testing.assert_allclose(build.run(given)[0], wanted, 1e-4, 1e-4)
