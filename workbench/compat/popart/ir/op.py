"""Operations of a graph as records: what they take and return, their meaning, and what they do to memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.compat.popart.errors import popart_exception
from workbench.compat.popart.ir.context import get_current_context
from workbench.compat.popart.ir.dtypes import dtype
from workbench.compat.popart.ir.tensor_location import ExecutionContext
from workbench.compiler.errors import WorkbenchError
from workbench.compiler.expressions.location import Location
from workbench.compiler.expressions.module_builder import ModuleBuilder
from workbench.compiler.expressions.value import Value
from workbench.compiler.ir.program import Program

if TYPE_CHECKING:
    from workbench.compat.popart.ir.graph import Graph
    from workbench.compat.popart.ir.tensor import Tensor

Meaning: TypeAlias = "Callable[..., Value | tuple[Value, ...]]"
"""A function of values, one for each input, that appends instructions and returns the outputs' values.

If an operation has no inputs, its meaning takes the builder instead.
"""
Spec: TypeAlias = "tuple[tuple[int, ...], dtype]"


@dataclass(frozen=True)
class View:
    """The memory that the first output of an operation shares with its inputs."""

    inputs: tuple[int, ...] = (0,)
    """The inputs whose memory it shares."""
    write: Callable[[int, Value, Value], Value] = lambda _k, _old, new: new
    """``write(k, old, new)``: the value of input ``k``, which was ``old``, once the output is ``new``."""


SAME = View()
"""The first output is the memory of the first input."""


@dataclass(eq=False)
class Op:
    """One operation of a graph."""

    id: int
    op_type: str
    name: str
    graph: Graph
    inputs: tuple[Tensor, ...]
    meaning: Meaning | None
    """None for an effect: a stream, a remote buffer, a call or a loop; lowering knows those by type."""
    attributes: dict[str, Any]
    outputs: tuple[Tensor, ...] = ()
    modifies: tuple[int, ...] = ()
    """Indices of the inputs whose memory it overwrites.

    The new values are the first output where that shares the memory; a meaning returns those of the others
    after its outputs.
    """
    view: View | None = None
    """The memory that the first output shares with inputs."""
    called_graphs: tuple[Graph, ...] = ()
    parts: tuple[Op, ...] = ()
    """The operations that were merged into this one."""
    ipu: int | None = 0
    tile_set: str = "compute"
    pipeline_stage: int | None = None
    execution_context: ExecutionContext = ExecutionContext.Normal
    in_sequence: tuple[Op, ...] = ()
    """The operations that must come before."""
    api: str = ""
    """The Python function that made it."""
    location: Location | None = None
    details: Any = field(default=None, repr=False)
    """For an effect: the stream, the remote buffer or the collective."""
    first_input: int = 0
    """PopART's index of the first input; a loop has two more before it, the count and the condition."""
    merged: Op | None = field(default=None, repr=False)
    """The operation that this one was merged into."""

    @property
    def whole(self) -> Op:
        """The operation that is in the graph: this one, or the one that it was merged into."""
        return self if self.merged is None else self.merged

    @property
    def needs(self) -> tuple[Op, ...]:
        """The operations that come before: those that make its inputs, and those that a sequence names."""
        made = (t.producer.whole for t in self.inputs if t.producer is not None)
        return (*made, *self.in_sequence)

    @property
    def hidden(self) -> tuple[int, ...]:
        """Indices of the inputs that it overwrites and whose memory no output shares."""
        return tuple(k for k in self.modifies if k not in self.aliases)

    def ipu_of(self, output: int) -> int | None:
        """The IPU of an output; a reduction across IPUs has one on each."""
        return self.attributes["ipus"][output] if "ipus" in self.attributes else self.ipu

    @property
    def aliases(self) -> tuple[int, ...]:
        """Indices of the inputs whose memory the first output shares."""
        return self.view.inputs if self.view is not None else ()

    def modifiesIndex(self, index: int) -> bool:  # noqa: N802 - PopART's name
        """Whether the memory of this input is overwritten."""
        return index - self.first_input in self.modifies

    def opType(self) -> str:  # noqa: N802 - PopART's name
        """The type, such as ``Add``."""
        return self.op_type

    def __repr__(self) -> str:
        """Type, name, inputs and outputs."""
        given = ", ".join(t.id for t in self.inputs)
        made = ", ".join(t.id for t in self.outputs)
        return f"Op[{self.op_type} {self.name or self.id} ({given}) -> ({made})]"


def record(
    op_type: str,
    inputs: Sequence[Tensor],
    meaning: Meaning | None = None,
    *,
    names: Sequence[str] = (),
    outputs: Sequence[Spec] | None = None,
    attributes: dict[str, Any] | None = None,
    modifies: Sequence[int] = (),
    view: View | None = None,
    called: Sequence[Graph] = (),
    name: str = "",
    details: Any = None,
    first_input: int = 0,
) -> Op:
    """Add an operation to the current graph.

    Args:
        op_type: Its type.
        inputs: Its inputs, which are of the current graph.
        meaning: Its meaning; shapes and types of outputs are those of the meaning's values.
        names: Names of the outputs; by default one made of the function that makes the operation.
        outputs: Shapes and types; by default those of the meaning's values.
        attributes: Its attributes, as they are shown.
        modifies: Indices of inputs that it overwrites.
        view: How the first output shares memory with inputs.
        called: Graphs that it calls.
        name: Its name; by default the function that makes it.
        details: For an effect, what lowering needs.
        first_input: PopART's index of the first input.

    Raises:
        popart_exception: The meaning refuses the inputs.
    """
    context = get_current_context()
    graph, api = context.graph, context.api
    before = context.sequence.before(graph) if context.sequence is not None else ()
    specs = inferred(op_type, meaning, inputs) if meaning and outputs is None else outputs
    op = Op(
        graph.ir().next_op_id(), op_type, context.scoped(name or api or op_type.lower()), graph,
        tuple(inputs), meaning, attributes or {}, modifies=tuple(modifies), view=view,
        called_graphs=tuple(called), ipu=context.ipus[-1], tile_set=context.tile_set,
        pipeline_stage=context.stages[-1], execution_context=context.execution[-1],
        in_sequence=before, api=api, location=context.location, details=details,
        first_input=first_input,
    )  # fmt: skip
    if outputs is None and op.hidden:
        specs = (specs or ())[: -len(op.hidden)]
    if view is SAME and specs and specs[0] != (inputs[0].shape, inputs[0].dtype):
        raise popart_exception(
            f"{op_type}: the result {specs[0]} does not fit the memory of its first input {inputs[0]!r}"
        )
    default = f"{(api or op_type.lower()).rstrip('_')}_out"
    op.outputs = tuple(
        graph.add_result(op, k, names[k] if k < len(names) else default, spec)
        for k, spec in enumerate(specs or ())
    )
    if view is SAME:
        op.outputs[0].memory = inputs[0].memory
    graph.add_op(op)
    return op


def inferred(op_type: str, meaning: Meaning, inputs: Sequence[Tensor]) -> list[Spec]:
    """Shapes and types of the values that a meaning returns for such inputs.

    Raises:
        popart_exception: It refuses them.
    """
    scratch = ModuleBuilder(Program().main)
    values = [scratch.input(f"x{k}", t.shape, t.dtype._name) for k, t in enumerate(inputs)]  # pyright: ignore[reportPrivateUsage]
    try:
        found = meaning(*(values or [scratch]))
    except WorkbenchError as error:
        given = ", ".join(map(repr, inputs))
        raise popart_exception(f"{op_type} of {given}: {error}") from error
    several = found if isinstance(found, tuple) else (found,)
    return [spec_of(v) for v in several]


def spec_of(value: Value) -> Spec:
    """The shape and type of a value."""
    lens = value.instruction.shape.lens
    return tuple(lens), dtype.as_dtype(value.dtype.numpy)
