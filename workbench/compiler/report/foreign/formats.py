"""The forms of profiles: whose they are, and the times of what they name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from workbench.compiler.errors import InputError
from workbench.compiler.report.foreign.events import Event, events_of

ONNXRUNTIME, TENSORRT, CHROME = "onnxruntime", "TensorRT", "Chrome"
_ENDING = "_kernel_time"
_AROUND = ("_fence_before", "_fence_after")
_LAYER = re.compile(r"\[ONNX Layer: ([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Item:
    """A name in a profile, with its times: a node, a layer, an operation."""

    name: str
    """As the profile says it."""
    nodes: tuple[str, ...]
    """The names in it that may be nodes or tensors of the model, the likeliest first."""
    seconds: tuple[float, ...]
    """Of each time that it ran."""
    operation: str = ""
    where: str = ""


@dataclass(frozen=True)
class Profile:
    """A profile in any form."""

    kind: str
    """``onnxruntime``, ``TensorRT`` or ``Chrome``."""
    items: tuple[Item, ...] = ()
    events: tuple[Event, ...] = ()
    """Of Chrome's format, whose names are known as nodes only with a program."""


def profile_of(given: Any, layers: Any = None) -> Profile:
    """The profile in a document.

    Args:
        given: Parsed JSON.
        layers: That of TensorRT's layer information, which says the nodes of each layer.

    Raises:
        InputError: It is none of the known forms.
    """
    if layers is not None and not _is_tensorrt(given):
        raise InputError("layers= belongs to a profile of TensorRT (trtexec --exportProfile)")
    if _is_tensorrt(given):
        return Profile(TENSORRT, tuple(_tensorrt(given, layers)))
    if isinstance(given, dict) and isinstance(cast("Any", given).get("Layers"), list):
        raise InputError(
            "TensorRT's layer information has no times; pass it as layers= with the profile"
        )
    events = events_of(given)
    of_nodes = [e for e in events if e.category == "Node" and "op_name" in e.args]
    if of_nodes:
        return Profile(ONNXRUNTIME, tuple(_onnxruntime(of_nodes)))
    return Profile(CHROME, (), tuple(events))


# onnxruntime


def _onnxruntime(events: Sequence[Event]) -> Iterator[Item]:
    """One item for each node, by name and index."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if not event.name.endswith(_AROUND):
            key = event.name.removesuffix(_ENDING), str(event.args.get("node_index", ""))
            found.setdefault(key, []).append(event)
    for (name, _), runs in found.items():
        args = runs[0].args
        yield Item(
            name, _listed(args, name), tuple(e.seconds for e in runs), str(args.get("op_name", "")),
            str(args.get("provider", "")),
        )  # fmt: skip


def _listed(args: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The nodes that our own sessions list, or those in the name."""
    given = args.get("sources")
    if isinstance(given, list) and given:
        return tuple(str(one) for one in cast("list[Any]", given))
    return (name,)


# TensorRT


def _is_tensorrt(given: Any) -> bool:
    rows = cast("list[Any]", given) if isinstance(given, list) else []
    return any(
        isinstance(r, dict) and {"averageMs", "timeMs"} & set(cast("Any", r)) for r in rows[:8]
    )


def _tensorrt(rows: Sequence[Any], layers: Any) -> Iterator[Item]:
    nodes = _nodes_of_layers(layers)
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or "name" not in row:
            continue
        layer = cast("dict[str, Any]", row)
        name = str(layer["name"])
        key = next((k for k in ("medianMs", "averageMs", "timeMs") if k in layer), "")
        took = _milliseconds(layer.get(key), at)
        yield Item(name, nodes.get(name) or parts_of(name), (took / 1e3,), where="device")


def _milliseconds(value: Any, at: int) -> float:
    number = float(value) if isinstance(value, int | float) else math.nan
    if not math.isfinite(number) or number < 0:
        raise InputError(f"layer {at}: its time is {str(value)[:40]!r}; expected milliseconds")
    return number


def _nodes_of_layers(layers: Any) -> dict[str, tuple[str, ...]]:
    """The nodes of each layer, as its metadata lists them."""
    if layers is None:
        return {}
    rows = cast("Any", layers).get("Layers") if isinstance(layers, dict) else None
    if not isinstance(rows, list):
        raise InputError(
            "layers=: no list 'Layers'; expected the file of trtexec --exportLayerInfo"
        )
    found: dict[str, tuple[str, ...]] = {}
    for row in cast("list[Any]", rows):
        if isinstance(row, dict):
            layer = cast("dict[str, Any]", row)
            named = _LAYER.findall(str(layer.get("Metadata", "")))
            found[str(layer.get("Name", ""))] = tuple(dict.fromkeys(named))
    return found


_WRAPPED = re.compile(
    r"^(?:PWN|Reformatting CopyNode for \w+ Tensor \d+ to|\{ForeignNode)\s*[\[(]?(.*?)[\])}]*$"
)


def parts_of(name: str) -> tuple[str, ...]:
    """The nodes in a layer's name: those joined by +, in PWN(...), or the ends of a range.

    Args:
        name: Such as ``/conv/Conv + /relu/Relu``, ``PWN(PWN(/a/Sigmoid), /b/Mul)`` or
            ``{ForeignNode[/a/MatMul.../b/Softmax]}``.
    """
    found: list[str] = []
    for part in re.split(r" \+ |, |\.\.\.| \|\| ", name):
        inner = part.strip()
        while (match := _WRAPPED.match(inner)) is not None and match[1] != inner:
            inner = match[1].strip()
        found += [inner, inner.rstrip(")]}")]
    return tuple(dict.fromkeys(f for f in found if f))


# Chrome


def items_of_events(events: Sequence[Event], known: Callable[[str], bool]) -> list[Item]:
    """An item for each set of nodes that a program knows, and one for each name of other work.

    If a device worked, times are those of its work, which belongs to the node around its launch. Otherwise
    they are those of the outermost event of each node; other work is what encloses no node.

    Args:
        events: The events, nested.
        known: Whether a name is a node's or a tensor's.
    """
    kernels = [e for e in events if e.is_kernel and not any(i.is_kernel for i in e.within)]
    if kernels:
        return _items(((e, *_owner(e, known)) for e in kernels), "device")
    owned = {id(e): _owner(e, known) for e in events}
    has_node: dict[int, bool] = {}
    for event in reversed(events):  # what lies in an event comes after it
        has_node[id(event)] = bool(owned[id(event)][1]) or any(
            has_node[id(i)] for i in event.within
        )
    counted = [e for e in events if _counts(e, owned[id(e)][0], has_node)]
    return _items(((e, *owned[id(e)]) for e in counted), "host")


def _counts(event: Event, owner: Event | None, has_node: Mapping[int, bool]) -> bool:
    """Whether an event of the host is the outermost of a node, or of work without nodes."""
    if owner is not None or has_node[id(event)]:
        return owner is event
    return event.around is None or has_node[id(event.around)]


def _items(found: Iterable[tuple[Event, Event | None, tuple[str, ...]]], where: str) -> list[Item]:
    """Items of pieces of work with the outermost event of their node; pieces of one event are added."""
    times: dict[tuple[tuple[str, ...], str], dict[int, float]] = {}
    for event, owner, nodes in found:
        runs = times.setdefault((nodes, "" if nodes else event.name), {})
        at = id(owner or event)
        runs[at] = runs.get(at, 0.0) + event.seconds
    return [
        Item(other or ", ".join(nodes), nodes, tuple(runs.values()), where=where)
        for (nodes, other), runs in times.items()
    ]


def _owner(event: Event, known: Callable[[str], bool]) -> tuple[Event | None, tuple[str, ...]]:
    """The outermost event of the innermost nodes around an event, and the nodes."""
    found: Event | None = None
    nodes: tuple[str, ...] = ()
    for at in event.outwards():
        named = tuple(dict.fromkeys(n for n in _names(at) if known(n)))
        if named and nodes in ((), named):
            found, nodes = at, named
    return found, nodes


def _names(event: Event) -> Iterator[str]:
    yield event.name
    for key in ("node", "name", "onnx_node"):
        if isinstance(value := event.args.get(key), str):
            yield value
    sources = event.args.get("sources")
    if isinstance(sources, list):
        yield from (str(s) for s in cast("list[Any]", sources))
