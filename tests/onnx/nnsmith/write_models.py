"""Writes models that NNSmith draws, and inputs for them: ``python write_models.py FOLDER COUNT SEED``.

It runs in an environment of its own (``make nnsmith``), which need not have the workbench: NNSmith
wants older versions of what the workbench uses.
"""

import sys
from pathlib import Path
from typing import Any

MOST_NODES, MOST_ELEMENTS, MOST_MS = 15, 4096, 10_000


def drawn(seed: int, kind: Any, opset: Any) -> Any:
    """A model and its inputs."""
    from nnsmith.graph_gen import model_gen

    made = model_gen(
        opset=opset,
        method="symbolic-cinit",
        seed=seed,
        max_elem_per_tensor=MOST_ELEMENTS,
        max_nodes=MOST_NODES,
        timeout_ms=MOST_MS,
    )
    model = kind.from_gir(made.make_concrete())
    model.refine_weights()  # so that few values are not finite
    return model, model.make_oracle()


def write(folder: Path, count: int, first: int) -> None:
    """Write a model and an archive of its inputs for each seed."""
    import numpy as np
    import onnx

    from nnsmith.abstract.extension import activate_ext
    from nnsmith.materialize import Model
    from nnsmith.narrow_spec import auto_opset
    from nnsmith.util import set_seed

    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    opset = auto_opset(kind, None)
    activate_ext(opset=opset, factory=None)
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        set_seed(seed)
        try:
            model, oracle = drawn(seed, kind, opset)
        except Exception as error:  # NNSmith gives up on some seeds, and says so in many ways
            print(f"seed {seed}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
            continue
        onnx.save(model.get_onnx_from_torch(), folder / f"{seed}.onnx")
        np.savez(folder / f"{seed}.npz", **oracle.input)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
