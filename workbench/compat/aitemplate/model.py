"""AITemplate's ``Model``: a compiled program that several threads and streams run at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from workbench.compat.aitemplate import compiled as files
from workbench.compat.aitemplate.compiled import Compiled, compiled_model, output_names
from workbench.compat.aitemplate.constant_methods import ConstantMethods
from workbench.compat.aitemplate.data import AITData, AITemplateAllocatorKind, enum_of
from workbench.compat.aitemplate.errors import RUN, named
from workbench.compat.aitemplate.measuring import Measuring
from workbench.compat.aitemplate.memory import Held, host_array, on_host
from workbench.compat.aitemplate.memory_methods import MemoryMethods
from workbench.compat.aitemplate.signature import (
    expect_pointer,
    expect_type,
    facts_of,
    in_order,
    type_given,
)
from workbench.compat.aitemplate.tensors import cut, seen
from workbench.compiler.builds.build import Build
from workbench.compiler.ir.dtypes import DType
from workbench.compiler.ir.program import Program
from workbench.gpu.run.device_array import DeviceArray

Given = Sequence[Any] | Mapping[str, Any]


class Model(ConstantMethods, MemoryMethods, Measuring):
    """A model that was saved, or was compiled by ``Model.of``.

    Args:
        lib_path: A folder that ``save`` wrote, or an ``.mxr`` file, whose parameters are inputs.
        num_runtimes: Runs that may be in progress at once.
        allocator_kind: Accepted; the device's pool counts bytes always.

    Raises:
        ValueError: ``num_runtimes`` is not positive.
        ModelError: The files are missing or damaged.
        DeviceError: The device it was compiled for is not here.
    """

    def __init__(
        self,
        lib_path: str | Path,
        num_runtimes: int = 1,
        allocator_kind: AITemplateAllocatorKind | None = None,
    ) -> None:
        """Load the model."""
        _expect_runtimes(num_runtimes)
        self.lib_path: str | None = str(lib_path)
        self.allocator_kind = allocator_kind or AITemplateAllocatorKind.DEFAULT
        self._load(files.load(Path(lib_path)), num_runtimes)

    @classmethod
    def of(
        cls,
        program: Program,
        outputs: Sequence[str],
        bound: Mapping[str, Any] | None = None,
        unbound: Iterable[str] = (),
        num_runtimes: int = 1,
        target: str | None = None,
        **options: Any,
    ) -> Self:
        """Compile a program, whose parameters are inputs and constants.

        Args:
            program: The program.
            outputs: Names of its outputs, in order.
            bound: Constants that the model keeps, with their values.
            unbound: Names of constants whose memory is the caller's.
            num_runtimes: Runs that may be in progress at once.
            target: The workbench's target; by default ``gpu``, or ``cpu`` where there is none.
            **options: Those of `workbench.compile`, such as ``device``.

        Raises:
            ValueError: A name is unknown or given twice, or a value does not fit its constant.
        """
        _expect_runtimes(num_runtimes)
        compiled = compiled_model(program, outputs, bound or {}, unbound, target, **options)
        return cls._made(compiled, num_runtimes)

    @classmethod
    def of_build(cls, build: Build, num_runtimes: int = 1) -> Self:
        """A model of a build, whose parameters are its inputs; kernels are compiled once for all such models.

        Args:
            build: The build.
            num_runtimes: Runs that may be in progress at once.

        Raises:
            ValueError: ``num_runtimes`` is not positive.
        """
        _expect_runtimes(num_runtimes)
        names = output_names(build.program)
        return cls._made(Compiled(build, tuple(build.program.parameters), names), num_runtimes)

    def beside(self, num_runtimes: int) -> Self:
        """Another model with the same kernels, the present values of constants and a pool of its own.

        Args:
            num_runtimes: Runs that may be in progress at once in that model.

        Raises:
            ValueError: ``num_runtimes`` is not positive.
            RuntimeError: This model is closed.
        """
        _expect_runtimes(num_runtimes)
        self._open()
        made = self._made(self.compiled, num_runtimes)
        made._constants.take(self._constants)
        made.lib_path = self.lib_path
        return made

    @classmethod
    def _made(cls, compiled: Compiled, num_runtimes: int) -> Self:
        made = cls.__new__(cls)
        made.allocator_kind = AITemplateAllocatorKind.DEFAULT
        made._load(compiled, num_runtimes)
        return made

    # Its life

    def __enter__(self) -> Self:
        """The model."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __del__(self) -> None:
        """Close it."""
        if getattr(self, "_pool", None) is not None:
            self.close()

    def __reduce__(self) -> Any:
        """By the path it was loaded from.

        Raises:
            TypeError: It was not loaded from files.
        """
        if self.lib_path is None:
            raise TypeError("a model that was not saved cannot be pickled: save it, and load it")
        return Model, (self.lib_path, self.get_num_runtimes(), self.allocator_kind)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder, or to an ``.mxr`` file if it has no constants.

        Kernels are saved with it, so loading needs no compiler, unless lengths are ranges.
        Bound constants have the values with which it was compiled.

        Raises:
            OperationError: It has constants, and the path is that of a file.
            OSError: It cannot be written.
        """
        files.save(self.compiled, Path(path))

    # Running

    def run(
        self,
        inputs: Given,
        outputs: Given,
        stream_ptr: Any = None,
        sync: bool = True,
        graph_mode: bool = False,
    ) -> dict[str, AITData]:
        """Run on memory of the caller.

        Args:
            inputs: Pointers with shapes, in order or by name.
            outputs: Pointers to memory of the maximum shapes, in order or by name.
            stream_ptr: The stream: a handle of CUDA or HIP, or a result of ``new_stream``.
            sync: Wait for the results; otherwise the memory has to live until they are there.
            graph_mode: Launch all kernels at once, where the device has graphs.

        Returns:
            The outputs with the shapes of this run.

        Raises:
            ValueError: A name or a type is unknown.
            RuntimeError: A shape or type does not fit, a constant is not set, or the model is closed.
        """
        self._open()
        with named(RUN):
            given = self._inputs_at(in_order(inputs, self._inputs, "input"))
            data: list[AITData] = in_order(outputs, self._outputs, "output")
            into = self._outputs_at(data)
            lens = self._run(given, into, stream_ptr, sync, graph_mode, keeps=())
        pairs = zip(self._outputs, data, lens, strict=True)
        return {p.name: AITData(d.data_ptr, list(n), d.dtype) for p, d, n in pairs}

    def run_with_tensors(
        self,
        inputs: Given,
        outputs: Given,
        stream_ptr: Any = None,
        sync: bool = True,
        graph_mode: bool = False,
    ) -> dict[str, Any]:
        """Run on tensors: of NumPy, or with DLPack or ``__cuda_array_interface__``.

        Those of the host are copied to the device, and results back, for which the run is awaited.

        Returns:
            The given outputs, cut to the shapes of this run.

        Raises:
            ValueError: A tensor is not contiguous or on another device, or a name is unknown.
            RuntimeError: As for ``run``.
        """
        self._open()
        with named(RUN):
            given = self._seen(in_order(inputs, self._inputs, "input"), "inputs")
            for k, (param, array) in enumerate(zip(self._inputs, given, strict=True)):
                self._expect(k, param, *facts_of(array))
            tensors = in_order(outputs, self._outputs, "output")
            into = self._seen(tensors, "outputs")
            for k, (param, array) in enumerate(zip(self._outputs, into, strict=True)):
                expect_type(k, param, facts_of(array)[0])
            lens = self._run_into(given, into, stream_ptr, sync, graph_mode, tensors)
        return {p.name: cut(t, n) for p, t, n in zip(self._outputs, tensors, lens, strict=True)}

    def _run_into(
        self,
        inputs: Sequence[Held],
        into: Sequence[Held],
        stream_ptr: Any,
        sync: bool,
        graph_mode: bool,
        keeps: Sequence[Any],
    ) -> list[tuple[int, ...]]:
        """Run, and copy results that are to be on the host there; the shapes of the results."""
        targets = [self._target(a) for a in into]
        copied = [k for k, (a, t) in enumerate(zip(into, targets, strict=True)) if a is not t]
        wait = sync or bool(copied)
        lens = self._run(inputs, targets, stream_ptr, wait, graph_mode, keeps)
        for k in copied:
            part: Any = cut(into[k], lens[k])
            part[...] = on_host(cut(targets[k], lens[k]))
        return lens

    def _run_with_outputs_on_host(
        self, inputs: Given, outputs: Given, stream_ptr: Any = None, graph_mode: bool = False
    ) -> dict[str, AITData]:
        """Run and wait; the outputs are pointers to memory of the host.

        Raises:
            ValueError: An output is in memory that this model allocated on its device.
        """
        self._open()
        with named(RUN):
            given = self._inputs_at(in_order(inputs, self._inputs, "input"))
            data: list[AITData] = in_order(outputs, self._outputs, "output")
            for k, (param, one) in enumerate(zip(self._outputs, data, strict=True)):
                expect_type(k, param, type_given(one))
                expect_pointer(param, one)
                if self._memory.device is not None and one.data_ptr in self._allocated:
                    raise ValueError(f"outputs[{k}] is on the device; expected memory of the host")
            into = [host_array(d.data_ptr, type_given(d), d.shape) for d in data]
            lens = self._run_into(given, into, stream_ptr, True, graph_mode, ())
        pairs = zip(self._outputs, data, lens, strict=True)
        return {p.name: AITData(d.data_ptr, list(n), d.dtype) for p, d, n in pairs}

    def _run_with_tensors_outputs_on_host(
        self, inputs: Given, outputs: Given, stream_ptr: Any = None, graph_mode: bool = False
    ) -> dict[str, Any]:
        """Run and wait; the outputs are tensors of the host.

        Raises:
            ValueError: An output is on a device.
        """
        self._open()
        with named(RUN):
            for k, tensor in enumerate(in_order(outputs, self._outputs, "output")):
                if isinstance(seen(tensor, self._memory, f"outputs[{k}]"), DeviceArray):
                    raise ValueError(f"outputs[{k}] is on a device; expected a tensor of the host")
        return self.run_with_tensors(inputs, outputs, stream_ptr, True, graph_mode)

    # The signature

    def get_num_runtimes(self) -> int:
        """The number of runs that may be in progress at once."""
        return len(self._open())

    def get_input_name_to_index_map(self) -> dict[str, int]:
        """The position of each input."""
        return {p.name: k for k, p in enumerate(self._inputs)}

    def get_output_name_to_index_map(self) -> dict[str, int]:
        """The position of each output."""
        return {p.name: k for k, p in enumerate(self._outputs)}

    def get_output_maximum_shape(self, output_idx_or_name: int | str) -> list[int]:
        """The greatest shape that an output can have.

        Raises:
            ValueError: There is no such output.
            TypeError: It is neither a position nor a name.
        """
        return self._outputs[self._position(output_idx_or_name)].maximum

    def _position(self, output: Any) -> int:
        if isinstance(output, str):
            known = self.get_output_name_to_index_map()
            if output not in known:
                raise ValueError(
                    f"Name {output} not in OutputNameToIndexMap! Available names: {list(known)}"
                )
            return known[output]
        if not isinstance(output, int) or isinstance(output, bool):
            raise TypeError(
                f"output_idx_or_name must be str or int, but got {type(output).__name__}"
            )
        if not 0 <= output < len(self._outputs):
            raise ValueError(f"output {output}: there are {len(self._outputs)} outputs")
        return output

    def get_output_dtype(self, index: int) -> int:
        """The runtime's number of an output's type: 1 is half, 2 float, 3 int, 4 long, 5 bool, 6 bfloat16."""
        return enum_of(self.output_type(index))

    def output_type(self, output_idx_or_name: int | str) -> DType:
        """The workbench's type of an output."""
        return self._outputs[self._position(output_idx_or_name)].shape.type


def _expect_runtimes(count: int) -> None:
    if count <= 0:
        raise ValueError(f"num_runtimes must be positive, but got {count}")
