"""The session: onnxruntime's ``InferenceSession`` over builds of the workbench."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import numpy as np
import onnx

from workbench.compat.onnxruntime import logs, outputs, pools
from workbench.compat.onnxruntime.assignment import OrtEpAssignedSubgraph, assigned
from workbench.compat.onnxruntime.binding import IOBinding
from workbench.compat.onnxruntime.devices import OrtMemoryInfo
from workbench.compat.onnxruntime.enums import GraphOptimizationLevel
from workbench.compat.onnxruntime.errors import (
    Fail,
    InvalidArgument,
    NotImplemented,
    fail,
    raised_as,
)
from workbench.compat.onnxruntime.feeds import checked
from workbench.compat.onnxruntime.handle import Handle
from workbench.compat.onnxruntime.loading import change, load, options_in
from workbench.compat.onnxruntime.options import RunOptions, SessionOptions
from workbench.compat.onnxruntime.profiling import Profile
from workbench.compat.onnxruntime.programs import Programs
from workbench.compat.onnxruntime.providers import (
    Place,
    check_and_normalize_provider_args,
    get_available_providers,
    place_of,
)
from workbench.compat.onnxruntime.sparse_models import densify, sparse_of
from workbench.compat.onnxruntime.text_models import TextModel, has_text
from workbench.compat.onnxruntime.types import ModelMetadata, NodeArg
from workbench.compat.onnxruntime.validity import check, check_attributes
from workbench.compat.onnxruntime.values import OrtValue, OrtValueVector
from workbench.compiler.builds.build import Build
from workbench.compiler.builds.targets import target_named
from workbench.compiler.errors import WorkbenchError
from workbench.knobs import knobs

_FUSIONS = (
    "fuse_attention",
    "fuse_concat",
    "fuse_gemm_epilogue",
    "fuse_horizontal",
    "fuse_pointwise",
    "fuse_reduce",
)
_KEYWORDS = ("disabled_optimizers", "enable_fallback", "read_config_from_model")


class Session:
    """A model that is ready to run, with onnxruntime's methods, and with ``build`` for everything else.

    Args:
        path_or_bytes: A model's file, its bytes, or a ModelProto.
        sess_options: Options; by default ``SessionOptions()``.
        providers: Names of providers, or pairs of a name and options. ``CPUExecutionProvider`` is the target
            ``cpu``; ``CUDAExecutionProvider`` and ``ROCMExecutionProvider`` are ``gpu`` on such a device;
            ``WorkbenchExecutionProvider`` takes the options ``target``, ``device`` and ``precision``.
        provider_options: Options of each provider, if ``providers`` has names only.
        **more: ``disabled_optimizers``: names of passes that are left out.

    Raises:
        NoSuchFile: There is no such file.
        InvalidProtobuf: The file is no model.
        InvalidGraph: The model breaks ONNX's rules.
        NotImplemented: The model uses something that is not supported; the message says what.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **more: Any,
    ) -> None:
        """Read and compile the model."""
        if unknown := [name for name in more if name not in _KEYWORDS]:
            raise TypeError(f"unknown argument {unknown[0]!r}; expected {', '.join(_KEYWORDS)}")
        self._model, self._folder = load(path_or_bytes)
        self._options = options_in(self._model) if sess_options is None else sess_options
        self._disabled = tuple(more.get("disabled_optimizers") or ())
        pools.expect_agreement(self._options.use_per_session_threads)
        place = self._first_place(providers, provider_options)
        self._profile: Profile | None = None
        if self._options.enable_profiling:
            self._profile = Profile(self._options.profile_file_prefix, place.providers[0])
        change(self._model, self._options)
        self._sparse = densify(self._model)
        self._light = check(self._model)
        check_attributes(self._light)
        self._describe()
        self._start(place)
        if path := self._options.optimized_model_filepath:
            outputs.save(self.build, Path(path), self._options.entries)

    def _first_place(self, providers: Any, options: Any) -> Place:
        if not providers and self._options.has_providers():
            providers, options = self._options.chosen, None
        names, given = check_and_normalize_provider_args(
            providers, options, get_available_providers()
        )
        try:
            return place_of(names, given)
        except RuntimeError as error:
            if "Unknown Provider Type" not in str(error):
                raise
            sys.stderr.write(
                f"EP Error {error} when using {names}\nFalling back to the CPU and retrying.\n"
            )
            return place_of([], [])

    def _describe(self) -> None:
        """Keep what the model declares, with inferred lengths of its outputs."""
        graph = self._light.graph
        tensors = {t.name for t in graph.initializer} | {
            t.values.name for t in graph.sparse_initializer
        }
        values = [self._argument(v) for v in graph.input]
        self._inputs = [v for v in values if v.name not in tensors]
        self._outputs = [self._argument(v) for v in graph.output]
        replaceable = [v for v in values if v.name in tensors]
        self._initializers = replaceable if self._light.ir_version >= 4 else []
        self.arguments = {v.name: v for v in [*self._inputs, *self._initializers]}
        """The inputs, and the initializers that a run may replace, by name."""

    def _argument(self, value: onnx.ValueInfoProto) -> NodeArg:
        """A value as the model declares it: sparse if it was."""
        found = NodeArg.of(value)
        return replace(found, type=f"sparse_{found.type}") if value.name in self._sparse else found

    def _start(self, place: Place) -> None:
        """Compile for a place."""
        self._place = place
        self._variants: dict[frozenset[str], Programs | TextModel] = {}
        with self._timed("session_initialization"), self._threads():
            self._programs(frozenset())
        text = f"{self._model.graph.name!r} compiled for target {place.target}"
        self._log(logs.VERBOSE, text if self._programs(frozenset()).last_build is None
                  else f"{text}: {self.build!r}")  # fmt: skip

    def _programs(self, replaced: frozenset[str]) -> Programs | TextModel:
        """The builds in which some initializers are inputs."""
        if replaced not in self._variants:
            model = self._model if not replaced else _without(self._model, replaced)
            if has_text(model):
                self._variants[replaced] = TextModel(model)
                return self._variants[replaced]
            options = {"external_data_path": self._folder} if self._folder else {}
            place = self._place
            with raised_as(NotImplemented, f"Load model {self._model.graph.name!r} failed: "):
                self._variants[replaced] = Programs(
                    model,
                    place.target,
                    options,
                    place.device,
                    {"record": True, **self._compiling()},
                )
        return self._variants[replaced]

    def _compiling(self) -> dict[str, Any]:
        """The options of ``compile`` that the session's options mean."""
        level, target = self._options.graph_optimization_level, target_named(self._place.target)
        made: dict[str, Any] = {"precision": self._place.precision}
        if level == GraphOptimizationLevel.ORT_DISABLE_ALL and not target.takes_device:
            return made | {"passes": "ref"}
        unwanted = {
            *self._disabled,
            *(_FUSIONS if level <= GraphOptimizationLevel.ORT_ENABLE_BASIC else ()),
        }
        return made | {"disable": sorted(unwanted & set(target.pipeline().names()))}

    def _threads(self) -> Any:
        count = self._options.intra_op_num_threads or pools.size()
        return knobs.scope(threads=count) if count > 0 else nullcontext()

    def _timed(self, name: str) -> Any:
        return self._profile.event(name) if self._profile is not None else nullcontext()

    def _log(self, severity: int, text: str) -> None:
        logs.log(severity, text, self._options.logid, self._options.log_severity_level)

    # What there is

    @property
    def build(self) -> Build:
        """The compiled program with its recording: explorer, kernels, timings, comparison with the reference.

        Raises:
            ModelError: Import needs lengths or values of inputs, and there was no run yet.
        """
        return self._programs(frozenset()).build

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in the model's order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in the model's order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that a run may replace by an input of that name."""
        return list(self._initializers)

    def get_modelmeta(self) -> ModelMetadata:
        """The model's facts about itself."""
        return ModelMetadata.of(self._model)

    def get_session_options(self) -> SessionOptions:
        """The options."""
        return self._options

    def get_providers(self) -> list[str]:
        """The providers, the first of which runs the model."""
        return list(self._place.providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return {name: dict(found) for name, found in self._place.options.items()}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Compile the model again for other providers.

        Raises:
            RuntimeError: A provider is unknown, or its device is not here.
        """
        names, options = check_and_normalize_provider_args(
            providers, provider_options, get_available_providers()
        )
        self._start(place_of(names, options))

    def disable_fallback(self) -> None:
        """Nothing: a session here never changes its provider after an error."""

    def enable_fallback(self) -> None:
        """Nothing: a session here never changes its provider after an error."""

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """The memory of each input: the CPU's."""
        return [OrtMemoryInfo("Cpu") for _ in self._inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """The memory of each output: the CPU's."""
        return [OrtMemoryInfo("Cpu") for _ in self._outputs]

    def get_input_epdevices(self) -> list[None]:
        """None for each input: there are no plugins of onnxruntime here."""
        return [None for _ in self._inputs]

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """The nodes of the model with the provider that runs each.

        Raises:
            Fail: The options do not ask for it.
        """
        key = "session.record_ep_graph_assignment_info"
        if self._options.entries.get(key) != "1":
            fail(Fail, f"Session configuration entry '{key}' must be set to \"1\" to retrieve EP graph "
                 "assignment information.")  # fmt: skip
        return assigned(self._model, self._place.providers[0])

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """Nothing: kernels here are not tuned by onnxruntime's means."""
        return []

    def set_tuning_results(
        self, results: Sequence[Mapping[str, Any]], *, error_on_invalid: bool = False
    ) -> None:
        """Ignore results of onnxruntime's tuning.

        Raises:
            RuntimeError: There are some, and they are to be an error.
        """
        if results and error_on_invalid:
            raise RuntimeError(
                f"Cannot find execution provider {results[0].get('ep')}; nothing is tuned here"
            )

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> NoReturn:
        """Refuse: no provider here has such options.

        Raises:
            NotImplemented: Always.
        """
        fail(
            NotImplemented,
            f"providers here have no dynamic options; found {', '.join(options) or 'none'}",
        )

    # Running

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs for some inputs.

        Args:
            output_names: Names of outputs; all if none are given.
            input_feed: An array, list, OrtValue or DLPack tensor for each input, by name.
            run_options: Options of this run.

        Returns:
            An array for each output; a list of arrays for a sequence, None for an empty optional.

        Raises:
            ValueError: An input is missing.
            InvalidArgument: A name is unknown, or a type, rank or length does not fit.
            Fail: The run failed or was ended.
        """
        return self.values_of(output_names, input_feed, run_options)

    def values_of(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
        on_device: bool = False,
    ) -> list[Any]:
        """The outputs as ``run`` gives them, or in the memory of the device if the session has one."""
        feed = self._checked(input_feed)
        names = [v.name for v in self._outputs]
        if unknown := [n for n in output_names or () if n not in names]:
            fail(InvalidArgument, f"Invalid output name:{unknown[0]}")
        if run_options is not None and run_options.terminate:
            fail(Fail, "Exiting due to terminate flag being set to true.")
        wanted = [names.index(n) for n in output_names or names]
        replaced = frozenset(feed) & {v.name for v in self._initializers}
        programs = self._programs(replaced)
        with (
            self._timed("model_run"),
            self._threads(),
            raised_as(Fail, "Non-zero status code returned: "),
        ):
            if on_device and (found := programs.on_device(feed)) is not None:
                return [found[k] for k in wanted]
            made = programs.outputs_of(feed, wanted, self._profile)
        pairs = zip(wanted, made, strict=True)
        return [sparse_of(v) if names[k] in self._sparse else v for k, v in pairs]

    def _checked(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        given = list(feed.keys())
        if missing := [v.name for v in self._inputs if v.name not in feed]:
            required = [n for n in missing if not self.arguments[n].type.startswith("optional(")]
            if required:
                raise ValueError(
                    f"Required inputs ({missing}) are missing from input feed ({given})."
                )
        made = checked(feed, self.arguments)
        return made | dict.fromkeys(missing)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> OrtValueVector:
        """The outputs as values, for inputs that are values; errors are those of ``run``."""
        feed = {name: value._get_c_value() for name, value in input_dict_ort_values.items()}  # pyright: ignore[reportPrivateUsage]
        return OrtValueVector(OrtValue(v) for v in self.run(output_names, feed, run_options))

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Any = None,
    ) -> None:
        """Append the outputs to ``fetches``, for inputs in a list; errors are those of ``run``."""
        feed = dict(zip(feed_names, feeds, strict=True))
        fetches.extend(self.run_with_ort_values(list(fetch_names), feed, run_options))

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[Any, Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in another thread, then call ``callback(outputs, user_data, error)``; no error is ``""``."""

        def work() -> None:
            try:
                found, error = self.run(output_names, input_feed, run_options), ""
            except (WorkbenchError, ValueError, RuntimeError) as raised:
                found, error = [], str(raised)
            callback(found, user_data, error)

        Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        """A binding of inputs and outputs for this session."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run on what is bound.

        Raises:
            RuntimeError: An input does not fit, an output is unknown, or none is bound.
        """
        iobinding.run(run_options)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any = np.float32
    ) -> OrtValue:
        """A value whose elements are not set yet, where the session takes inputs."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type)

    # Profiles

    def end_profiling(self) -> str:
        """Write the profile and return the path of its file; empty if the session is not profiled."""
        profile, self._profile = self._profile, None
        return "" if profile is None else profile.save()

    def get_profiling_start_time_ns(self) -> int:
        """The start of profiling, in nanoseconds; 0 if the session is not profiled."""
        return 0 if self._profile is None else self._profile.start_ns

    @property
    def _sess(self) -> Handle:
        return Handle(self)


InferenceSession = Session


def _without(model: onnx.ModelProto, names: frozenset[str]) -> onnx.ModelProto:
    """A model in which some initializers are inputs only."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [t for t in made.graph.initializer if t.name not in names]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    return made
