"""The programs and the pointers of AITemplate's tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.compat.aitemplate import AITData, Model
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Dim, Shape

SIZE = 8


def scaled(batch: int | Dim = 4) -> Program:
    """``relu(x @ (w * w) @ v)``, where ``w`` is folded and ``v`` is not."""
    program = Program("scaled")
    main = program.main
    dims = [batch if isinstance(batch, Dim) else Dim(batch, batch), Dim(SIZE, SIZE)]
    fixed = Shape("float", [d.max for d in dims])
    x = main.add_parameter("x", fixed if isinstance(batch, int) else Shape.dynamic("float", dims))
    w = main.add_parameter("w", Shape("float", (SIZE, SIZE)))
    v = main.add_parameter("v", Shape("float", (SIZE, SIZE)))
    product = main.add("dot", x, main.add("mul", w, w))
    main.add_return(main.add("relu", main.add("dot", product, v)))
    return program


def meaning(x: Any, w: Any, v: Any) -> Any:
    return np.maximum(x @ (w * w) @ v, 0)


def some(seed: int, *lens: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(lens, np.float32)


def near(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def there(model: Model, *arrays: np.ndarray) -> list[AITData]:
    return [model.numpy_to_ait_data(a) for a in arrays]


def room(model: Model, name: str | int = "y", type: str = "float32") -> AITData:
    lens: Sequence[int] = model.get_output_maximum_shape(name)
    return model.numpy_to_ait_data(np.zeros(lens, type))
