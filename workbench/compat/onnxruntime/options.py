"""Options of sessions and runs: those with a meaning here work, the others are kept and shown."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, ClassVar, NoReturn, cast

import numpy as np

from workbench.compat.onnxruntime.enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from workbench.compat.onnxruntime.errors import Fail, InvalidArgument, fail

Field = bool | int | str | IntEnum


class _Options:
    """Fields of fixed types, and free entries of text."""

    _fields: ClassVar[dict[str, Field]] = {}

    def __init__(self) -> None:
        """The defaults."""
        self.__dict__.update(self._fields)
        self.__dict__["_entries"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field.

        Raises:
            AttributeError: There is no such option.
            TypeError: The value has another type.
        """
        if name not in self._fields:
            known = ", ".join(self._fields)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; it has {known}"
            )
        self.__dict__[name] = _typed(name, value, self._fields[name])

    def __getattr__(self, name: str) -> Any:
        # Fields are in the dictionary, which type checkers cannot see.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]

    @property
    def entries(self) -> dict[str, str]:
        """The free entries."""
        return dict(self._entries)


def _typed(name: str, value: Any, default: Field) -> Field:
    kind = type(default)
    if issubclass(kind, IntEnum):
        fits = isinstance(value, kind)
    elif kind is int:
        fits = hasattr(value, "__index__") and not isinstance(value, bool | np.bool_)
    elif kind is bool:
        fits = isinstance(value, bool | np.bool_)
    else:
        value = str(value) if hasattr(value, "__fspath__") else value
        fits = isinstance(value, str)
    if not fits:
        raise TypeError(
            f"{name}: incompatible value {value!r}; expected a value of type {kind.__name__}"
        )
    return kind(cast("Any", value))


class SessionOptions(_Options):
    """Options of a session.

    These work: ``graph_optimization_level``, ``intra_op_num_threads``, ``enable_profiling``,
    ``profile_file_prefix``, ``optimized_model_filepath``, ``logid``, ``log_severity_level``, and the methods.
    The others choose between strategies of onnxruntime that do not exist here: they are kept, and change no
    result.
    """

    _fields: ClassVar[dict[str, Field]] = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        """onnxruntime's defaults."""
        super().__init__()
        self.__dict__.update(
            initializers={},
            external={},
            files={},
            dims={},
            denotations={},
            chosen=[],
            cancelled=False,
        )

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry by its key; docs/from_onnxruntime.md lists those that are read."""
        self._entries[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """The entry of a key.

        Raises:
            RuntimeError: There is none.
        """
        return self._entry(key)

    def add_initializer(self, name: str, ort_value: Any) -> None:
        """Replace an initializer of the model; a name that it does not have is ignored, as in onnxruntime."""
        self.initializers[str(name)] = ort_value

    def add_external_initializers(self, names: Sequence[str], ort_values: Sequence[Any]) -> None:
        """Give tensors that the model stores in other files.

        Raises:
            InvalidArgument: There are not as many values as names.
        """
        if len(names) != len(ort_values):
            fail(
                InvalidArgument, f"{len(names)} names of initializers, but {len(ort_values)} values"
            )
        self.external.update(zip(names, ort_values, strict=True))

    def add_external_initializers_from_files_in_memory(
        self, file_names: Sequence[str], file_buffers: Sequence[Any], file_lengths: Sequence[int]
    ) -> None:
        """Give the bytes of files in which the model stores tensors.

        Raises:
            InvalidArgument: The lists differ in length, or a length exceeds its bytes.
        """
        if not len(file_names) == len(file_buffers) == len(file_lengths):
            fail(InvalidArgument, "names, contents and lengths of files differ in number")
        for name, data, length in zip(file_names, file_buffers, file_lengths, strict=True):
            if not 0 <= length <= len(data):
                fail(
                    InvalidArgument,
                    f"file {name!r}: length {length}, but {len(data)} bytes were given",
                )
            self.files[str(name)] = bytes(data[:length])

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix the length of a dimension that the model names."""
        self.dims[str(name)] = int(value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fix the length of dimensions with a denotation, such as ``DATA_BATCH``."""
        self.denotations[str(denotation)] = int(value)

    def add_provider(self, name: str, options: dict[str, str] | None = None) -> None:
        """Choose a provider, for sessions that are given none."""
        self.chosen.append((name, dict(options or {})))

    def has_providers(self) -> bool:
        """Whether a provider was chosen here."""
        return bool(self.chosen)

    def set_load_cancellation_flag(self, cancel: bool) -> None:
        """Refuse to load further models with these options."""
        self.__dict__["cancelled"] = bool(cancel)

    def register_custom_ops_library(self, path: str) -> NoReturn:
        """Refuse: operators compiled for onnxruntime cannot run here.

        Raises:
            Fail: Always; the message says what to do instead.
        """
        fail(
            Fail,
            f"Failed to load library {path} with error: operators compiled for onnxruntime need onnxruntime "
            "itself; teach the importer the operator with workbench.compiler.onnx.onnx_op, and declare it "
            "with workbench.operation",
        )


class RunOptions(_Options):
    """Options of a run: ``terminate`` ends it, ``logid`` names it; the others are kept."""

    _fields: ClassVar[dict[str, Field]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry by its key."""
        self._entries[str(key)] = str(value)

    def get_run_config_entry(self, key: str) -> str:
        """The entry of a key.

        Raises:
            RuntimeError: There is none.
        """
        return self._entry(key)

    def add_active_adapter(self, adapter: Any) -> NoReturn:
        """Refuse: adapters are files of onnxruntime's own format.

        Raises:
            Fail: Always; the message says what to do instead.
        """
        fail(
            Fail,
            f"{type(adapter).__name__}: LoRA adapters are not supported; give the model's parameters as "
            "inputs, or replace them with SessionOptions.add_initializer",
        )
