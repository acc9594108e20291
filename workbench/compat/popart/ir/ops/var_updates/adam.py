"""The updates of Adam, AdaMax and LAMB."""

from __future__ import annotations

from typing import Any

from workbench.compat.popart.ir.context import api
from workbench.compat.popart.ir.op import SAME, record
from workbench.compat.popart.ir.ops.checks import check, check_in_graph
from workbench.compat.popart.ir.tensors import Tensor
from workbench.compiler.expressions.value import Value

Number = float | Tensor | None


@api
def adam_updater(
    m: Tensor,
    v: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Number = None,
    beta1: Number = None,
    beta2: Number = None,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """The step of Adam from two moments: ``m / (sqrt(v) + epsilon) + weight_decay * weight``.

    Args:
        m: The first moment.
        v: The second one.
        weight: The variable, for weight decay.
        time_step: The number of steps done, which is incremented; with it the moments are corrected.
        weight_decay: The share of the variable that is added.
        beta1: The decay of the first moment.
        beta2: The decay of the second one.
        epsilon: Added to the root.

    Raises:
        ValueError: Weight decay without a variable, or a correction without both decays.
    """
    return _adam("Adam", m, v, weight, time_step, weight_decay, beta1, beta2, epsilon)


@api
def lamb_updater(
    m: Tensor,
    v: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Number = None,
    beta1: Number = None,
    beta2: Number = None,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """The step of LAMB before it is scaled by norms; arguments and errors as for `adam_updater`."""
    return _adam("Lamb", m, v, weight, time_step, weight_decay, beta1, beta2, epsilon)


@api
def adamax_updater(
    m: Tensor,
    v: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Number = None,
    beta1: float | Tensor = 0.9,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """The step of AdaMax, whose second moment is a maximum; arguments as for `adam_updater`.

    Raises:
        ValueError: There is no time step, or weight decay without a variable.
    """
    if time_step is None:
        raise ValueError("AdaMax requires time_step not None.")
    return _adam("AdaMax", m, v, weight, time_step, weight_decay, beta1, None, epsilon)


def _adam(
    mode: str, m: Tensor, v: Tensor, weight: Tensor | None, time_step: Tensor | None,
    weight_decay: Number, beta1: Number, beta2: Number, epsilon: Number,
) -> Tensor:  # fmt: skip
    if weight_decay is not None and weight is None:
        raise ValueError("Weight decay requires weight to be not None.")
    if mode != "AdaMax":
        if time_step is not None and (beta1 is None or beta2 is None):
            raise ValueError("Bias correction requires both beta1 and beta2 not None.")
        if time_step is None and not (beta1 is None and beta2 is None):
            raise ValueError("Bias correction requires time_step not None.")
    named = {
        "m": m, "v": v, "weight": weight, "time_step": time_step, "weight_decay": weight_decay,
        "beta1": beta1, "beta2": beta2, "epsilon": epsilon,
    }  # fmt: skip
    tensors = {n: x for n, x in named.items() if isinstance(x, Tensor)}
    numbers = {n: x for n, x in named.items() if x is not None and not isinstance(x, Tensor)}
    check_in_graph(**tensors)

    def meaning(*values: Value) -> Value | tuple[Value, Value]:
        given: dict[str, Any] = numbers | dict(zip(tensors, values, strict=True))
        step = _step(mode, given)
        if time_step is None:
            return step
        count = given["time_step"]
        return step, (count + 1).astype(count.dtype)

    modified = [list(tensors).index("time_step")] if time_step is not None else []
    attributes = {"mode": mode, **numbers}
    return record(
        "AdamUpdater", list(tensors.values()), meaning, attributes=attributes, modifies=modified
    ).outputs[0]


def _step(mode: str, given: dict[str, Any]) -> Value:
    """The step from tensors and numbers by name, computed in float32."""
    at: dict[str, Any] = {
        n: x.astype("float") if isinstance(x, Value) else float(x) for n, x in given.items()
    }
    m, v, epsilon = at["m"], at["v"], at["epsilon"]
    if "time_step" in at:
        count = at["time_step"] + 1.0
        m = m / (1.0 - _power(at["beta1"], count))
        if mode != "AdaMax":
            v = v / (1.0 - _power(at["beta2"], count))
    found = m / ((v if mode == "AdaMax" else v.apply("sqrt")) + epsilon)
    if "weight_decay" in at:
        found = found + at["weight"] * at["weight_decay"]
    kept = given["m"].dtype
    return found.astype(kept) if kept.is_float else found


def _power(base: Any, exponent: Value) -> Value:
    return base.apply("pow", exponent) if isinstance(base, Value) else base**exponent


@api
def adam_var_update(
    t: Tensor,
    x: Tensor,
    r1: Tensor,
    r2: Tensor,
    learning_rate: Number = None,
    max_weight_norm: Number = None,
) -> Tensor:
    """Subtract a step from a variable, scaled by the ratio of their norms: ``t -= rate * ratio * x``.

    Args:
        t: The variable.
        x: The step.
        r1: The sum of the variable's squares.
        r2: The sum of the step's squares; the ratio is 1 if either sum is 0.
        learning_rate: The rate; 1 by default.
        max_weight_norm: The largest norm of the variable that counts; no bound by default.
    """
    named = {"learning_rate": learning_rate, "max_weight_norm": max_weight_norm}
    tensors = {n: k for n, k in named.items() if isinstance(k, Tensor)}
    numbers = {n: k for n, k in named.items() if k is not None and not isinstance(k, Tensor)}
    check(t=t, x=x, r1=r1, r2=r2, **tensors)

    def meaning(w: Value, step: Value, a: Value, b: Value, *rest: Value) -> Value:
        given: dict[str, Any] = numbers | dict(zip(tensors, rest, strict=True))
        norm, length = (v.astype("float").apply("sqrt") for v in (a, b))
        is_zero = (norm == 0) | (length == 0)
        bounded = norm
        if "max_weight_norm" in given:
            bounded = norm.minimum(given["max_weight_norm"])
        ratio = is_zero.apply("where", 1.0, bounded / is_zero.apply("where", 1.0, length))
        rate = ratio * given.get("learning_rate", 1.0)
        return (w.astype("float") - step.astype("float") * rate).astype(w.dtype)

    return record(
        "AdamVarUpdate", [t, x, r1, r2, *tensors.values()], meaning, attributes=dict(numbers),
        modifies=(0,), view=SAME,
    ).outputs[0]  # fmt: skip


def _second(_: Value, x: Value) -> Value:
    return x


@api
def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:  # noqa: N803 - PopART's name
    """Overwrite a tensor with another one: ``t = X``."""
    check(t=t, X=X)
    return record("CopyVarUpdate", [t, X], _second, modifies=(0,), view=SAME).outputs[0]
