"""The code behind ``model.py``: requests of Triton's Python backend, run by a saved model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import Any

import numpy as np

from workbench.compat.aitemplate.model import Model
from workbench.compat.aitemplate.signature import Param
from workbench.compat.triton.repository import DEVICE, RUNTIMES, parameter
from workbench.compiler.errors import InputError, WorkbenchError
from workbench.compiler.ir.dtypes import Array
from workbench.knobs import knobs


class Backend:
    """One instance of a model in a server.

    Args:
        pb_utils: Triton's module ``triton_python_backend_utils``, which only its processes have.
        folder: The saved model.
        args: Those of ``initialize``: the configuration as JSON, kind and number of the instance's device.

    Raises:
        TritonModelException: The model cannot be loaded; the message says why.
    """

    def __init__(self, pb_utils: Any, folder: Path, args: Mapping[str, str]) -> None:
        """Load the model."""
        self._pb = pb_utils
        config = json.loads(args["model_config"])
        self._runtimes = int(parameter(config, RUNTIMES) or 1)
        try:
            with knobs.scope(device=_device(config, args)):
                self.model = Model(folder, num_runtimes=self._runtimes)
        except (WorkbenchError, OSError) as error:
            raise pb_utils.TritonModelException(f"{folder}: {error}") from error
        self._inputs = {p.name: p for p in self.model.inputs}
        self._threads = ThreadPoolExecutor(self._runtimes)
        self._own = local()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """A response for each request, in order; those of a call run at once, in streams of their own."""
        return list(self._threads.map(self._answer, requests))

    def close(self) -> None:
        """Wait for requests in progress, and free the memory."""
        self._threads.shutdown()
        self.model.close()

    def _answer(self, request: Any) -> Any:
        """The response; an error is one for this request alone."""
        try:
            given = {n: self._given(request, p) for n, p in self._inputs.items()}
            found = self._run(given)
            wanted = list(request.requested_output_names()) or list(found)
            if unknown := [n for n in wanted if n not in found]:
                raise InputError(
                    f"no output is called {unknown[0]!r}; outputs are {', '.join(found)}"
                )
            tensors = [self._pb.Tensor(n, found[n]) for n in wanted]
        except Exception as error:  # a request must not end the server
            said = str(error) if isinstance(error, WorkbenchError | ValueError) else repr(error)
            return self._pb.InferenceResponse(output_tensors=[], error=self._pb.TritonError(said))
        return self._pb.InferenceResponse(output_tensors=tensors)

    def _given(self, request: Any, param: Param) -> Array:
        tensor = self._pb.get_input_tensor_by_name(request, param.name)
        if tensor is None:
            raise InputError(f"no input {param.name!r}; inputs are {', '.join(self._inputs)}")
        array = np.ascontiguousarray(tensor.as_numpy())
        return array.reshape(()) if not param.ranges and array.size == 1 else array

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if not hasattr(self._own, "stream"):
            self._own.stream = self.model.new_stream()
        into = {p.name: np.empty(p.maximum, p.shape.type.numpy) for p in self.model.outputs}
        found = self.model.run_with_tensors(inputs, into, self._own.stream)
        return {n: np.atleast_1d(a) for n, a in found.items()}


def _device(config: Any, args: Mapping[str, str]) -> str:
    """The device that the model was compiled for, with the number that the server gave this instance."""
    kind = parameter(config, DEVICE)
    if kind and args.get("model_instance_kind", "").removeprefix("KIND_") == "GPU":
        return f"{kind}:{args.get('model_instance_device_id', '0')}"
    return kind
