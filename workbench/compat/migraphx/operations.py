"""Operations and macros by name, with their attributes."""

from __future__ import annotations

from typing import Any

from workbench.compat.migraphx.errors import Error, bound, translated
from workbench.compat.migraphx.numbered import Numbered
from workbench.compat.migraphx.showing import bundle
from workbench.compat.migraphx.values import read, read_attributes, shown_attributes
from workbench.compiler.errors import OperationError
from workbench.compiler.ir.operation import Operation, find, make


class pooling_mode(Numbered):
    """The mode of a pooling window: mean, maximum or p-norm."""

    average = 0
    max = 1
    lpnorm = 2


class rnn_direction(Numbered):
    """The order in which the steps of a sequence are taken."""

    forward = 0
    reverse = 1
    bidirectional = 2


class op:
    """An operation with attributes; ``op("softmax", axis=1)``.

    Raises:
        Error: There is no such operation or attribute, or a value cannot be that attribute's.
    """

    pooling_mode = pooling_mode
    rnn_direction = rnn_direction

    def __init__(self, name: str, /, **attributes: Any) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"op(): name: expected str, found {type(name).__name__} {name!r}")
        with translated():
            self._core = _made(name, attributes)

    @classmethod
    def of(cls, core: Operation) -> op:
        """The operation that wraps one of the core's."""
        made = cls.__new__(cls)
        made._core = core
        return made

    @property
    def core(self) -> Operation:
        """The core's operation."""
        return self._core

    @bound
    def name(self) -> str:
        """The name."""
        return operation_name(self._core)

    @bound
    def values(self) -> dict[str, Any]:
        """All attributes, with defaults for those that were not given."""
        return shown_attributes(self._core)

    def __repr__(self) -> str:
        """The operation as programs print it."""
        return str(self._core)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return bundle(repr(self), f"op {self.name()}", self.values())


def operation_name(core: Operation) -> str:
    """The name of an operation; an unknown operation's name contains the model's operator."""
    return str(core) if core.name == "unknown:" else core.name


def _made(name: str, attributes: dict[str, Any]) -> Operation:
    try:
        cls = find(name)
    except OperationError as error:
        raise Error(f"Operator not found: {name} ({error})") from None
    return make(name, **read_attributes(cls, {k: read(v) for k, v in attributes.items()}))


class macro:
    """A name for several operations: ``macro("gemm", alpha=0.5)``. Other names stand for that operation."""

    def __init__(self, name: str, /, **options: Any) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"macro(): name: expected str, found {type(name).__name__} {name!r}")
        with translated():
            self._options = {k: read(v) for k, v in options.items()}
        self._name = name

    @bound
    def name(self) -> str:
        """The name."""
        return self._name

    @bound
    def options(self) -> dict[str, Any]:
        """The options that were given."""
        return dict(self._options)

    def __repr__(self) -> str:
        """Name and options."""
        given = "".join(f", {k}={v!r}" for k, v in self._options.items())
        return f"macro({self._name!r}{given})"
