"""Specialisation of a program with ranges to the lengths of given inputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, Generic, TypeVar, cast

import numpy as np

from workbench.compiler.ir.dtypes import Array
from workbench.compiler.ir.module import Instruction, Module
from workbench.compiler.ir.program import Program
from workbench.compiler.ir.shape import Shape
from workbench.compiler.ir.sym.bindings import bindings, specialised
from workbench.compiler.ops.fused import FusedReduce, bind
from workbench.compiler.run.inputs import check_inputs

T = TypeVar("T")

KEPT = 8
"""Most sets of lengths whose kernels are kept; the least recently used is evicted."""


def is_dynamic(program: Program) -> bool:
    """Whether the lengths of some parameter are known only at run time."""
    return any(s.is_dynamic for s in program.parameters.values())


def lengths_of(program: Program, inputs: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The lens of the inputs, in the order of the parameters.

    Raises:
        InputError: An input does not fit.
    """
    checked = check_inputs(program, inputs)
    return tuple(np.shape(cast("Array", checked[name])) for name in program.parameters)


def with_lengths(program: Program, inputs: Mapping[str, Any]) -> Program:
    """A copy of a program for inputs of these lengths; instructions keep their ids.

    Raises:
        InputError: An input does not fit.
        ShapeError: The program does not work for these lengths.
    """
    checked = check_inputs(program, inputs)
    made = program.clone()
    shapes = program.parameters
    values = bindings((n, s, checked[n]) for n, s in shapes.items() if s.is_dynamic)
    for name, parameter in made.main.parameters.items():
        if shapes[name].is_dynamic:
            lens = np.shape(cast("Array", checked[name]))
            made.main.set_shape(parameter, Shape(parameter.shape.type, lens))
    _infer(made.main, values)
    return made


def _infer(module: Module, values: Mapping[Any, int]) -> None:
    """Infer the shapes of a module's instructions again, after those of the modules that they call."""
    for instruction in module:
        for called in instruction.modules:
            if isinstance(instruction.op, FusedReduce):
                _bind(called, instruction)
            _infer(called, values)
        if instruction.inputs and not instruction.name.startswith("@"):
            module.set_op(instruction, specialised(instruction.op, values))


def _bind(body: Module, caller: Instruction) -> None:
    """Give the parameters of a body the shapes of its caller's inputs, which have become known."""
    shapes = [i.shape for i in caller.inputs]
    for name, shape in bind(caller.op, body, shapes).items():
        if body.parameters[name].shape.is_dynamic:
            body.set_shape(body.parameters[name], shape)


class Dispatch(Generic[T]):
    """The results of a function for each set of lengths.

    Args:
        source: A program with dynamic parameters.
        make: The function, of the program for one set of lengths.
    """

    def __init__(self, source: Program, make: Callable[[Program], T]) -> None:
        """Start without results."""
        self.source = source
        self._make = make
        self._lock = RLock()
        self._known: OrderedDict[tuple[tuple[int, ...], ...], T] = OrderedDict()

    def of(self, inputs: Mapping[str, Any]) -> T:
        """The result for the lengths of these inputs; computed at the first call."""
        key = lengths_of(self.source, inputs)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._make(with_lengths(self.source, inputs))
            self._known.move_to_end(key)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return self._known[key]
