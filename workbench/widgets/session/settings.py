"""The settings of a session: target, device, precision, passes and inputs; and the same as code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from workbench.compiler.builds.targets import Target, target_named
from workbench.compiler.errors import OperationError
from workbench.compiler.passes.base import Pass, Pipeline

PRECISIONS = ("", "fp16", "bf16")
"""What ``compile(precision=)`` takes; the first means as typed."""


@dataclass(frozen=True)
class Settings:
    """The choices from which a build and its inputs follow."""

    target: str = "auto"
    device: str = ""
    """A device of the target; empty for the best one."""
    precision: str = ""
    """``fp16`` or ``bf16``; empty for the types of the model."""
    off: tuple[str, ...] = ()
    """Names of passes that are left out."""
    order: tuple[int, ...] = ()
    """The order of the pipeline's passes by their place in the target's own; empty for that one."""
    seed: int = 0
    """The seed of generated inputs."""
    inputs: str = ""
    """A file of inputs, as for ``read_inputs``; empty if they are generated."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """The settings of a mapping, as a browser sends it.

        Raises:
            OperationError: A key or value is none of these.
        """
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OperationError(f"settings: expected a mapping by name; found {given!r}")
        usual = asdict(cls())
        for name, value in given.items():
            if name not in usual:
                raise OperationError(f"unknown setting {name!r}; expected {', '.join(usual)}")
            if not _is_like(value, usual[name]):
                kind = "names" if name == "off" else type(usual[name]).__name__
                raise OperationError(f"setting {name!r}: expected {kind}; found {value!r}")
        listed: dict[str, Any] = {
            k: tuple(v) if isinstance(usual[k], tuple) else v for k, v in given.items()
        }
        made = cls(**listed)
        made.pipeline()
        if made.precision not in PRECISIONS:
            raise OperationError(
                f"unknown precision {made.precision!r}; expected one of fp16, bf16, or none"
            )
        return made

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def words(self) -> str:
        """The settings of a build in words: ``gpu fp16 without fuse_reduce``."""
        off = f"without {', '.join(self.off)}" if self.off else ""
        order = "reordered" if self.order else ""
        return " ".join(filter(None, [self.target, self.device, self.precision, off, order]))

    def chosen(self) -> Target:
        """The target.

        Raises:
            OperationError: There is no such target.
        """
        return target_named(self.target)

    def pipeline(self) -> Pipeline:
        """The target's pipeline in the chosen order, without what is off.

        Raises:
            OperationError: The pipeline has no such pass, or the order does not name each place once.
        """
        own = self.chosen().pipeline()
        if self.order:
            if sorted(self.order) != list(range(len(own.passes))):
                raise OperationError(
                    f"order {list(self.order)}: expected each of 0 to {len(own.passes) - 1} once"
                )
            own = replace(own, passes=tuple(own.passes[k] for k in self.order))
        return own.without(*self.off)

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``compile``."""
        found: dict[str, Any] = {"target": self.target}
        if self.device and self.chosen().takes_device:
            found["device"] = self.device
        if self.precision:
            found["precision"] = self.precision
        if self.order:
            found["passes"] = self.pipeline()
        elif self.off:
            found["disable"] = self.off
        return found

    def compile_code(self) -> str:
        """The call of ``compile``, as Python."""
        lines: list[str] = []
        said = {k: repr(v) for k, v in self.arguments().items()}
        if self.order:
            own = self.chosen().pipeline()
            lines = [
                "from dataclasses import replace",
                "",
                f"pipeline = wb.pipelines()[{own.label!r}]",
                f"pipeline = replace(pipeline, passes=tuple(pipeline.passes[k] for k in {self.order}))",
            ]
            if self.off:
                lines.append(f"pipeline = pipeline.without({', '.join(map(repr, self.off))})")
            said["passes"] = "pipeline"
        listed = ", ".join(f"{k}={v}" for k, v in said.items())
        return "\n".join([*lines, f"build = wb.compile(program, {listed})"])

    def inputs_code(self) -> str:
        """The inputs as an argument, as Python; empty if they are generated."""
        return f"wb.read_inputs(program, {self.inputs!r})" if self.inputs else ""


def _is_like(value: Any, usual: Any) -> bool:
    """Whether a value has the type of a usual one; lists count as tuples."""
    if isinstance(usual, tuple):
        return isinstance(value, list | tuple)
    return type(value) is type(usual) and (not isinstance(value, int) or value >= 0)


def switches(pipeline: Pipeline, off: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each entry of a pipeline: its label, and its passes with summaries and whether they run."""
    return [
        {"label": _label(one), "passes": [_switch(p, off) for p in _flat(one)]}
        for one in pipeline.passes
    ]


def _switch(one: Pass, off: Sequence[str]) -> dict[str, Any]:
    return {"name": one.name, "summary": one.summary, "on": one.name not in off}


def _label(one: Pass) -> str:
    return one.label if isinstance(one, Pipeline) else one.name


def _flat(one: Pass) -> list[Pass]:
    if not isinstance(one, Pipeline):
        return [one]
    return [p for inner in one.passes for p in _flat(inner)]
