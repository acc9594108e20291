"""The error function in NumPy, accurate to the last bits of float32 and of float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.compiler.ir.dtypes import Array

# erf(x) = tanh(x + x P(x²)): P is a fit by reweighted least squares of artanh(erf(x)) / x - 1 on
# [0, 4]. The relative error is at most 1e-8 before rounding; beyond 4 the tanh is ±1.
_INNER = (0.12837917846190372, 0.10277216437837351, -0.00020665145350978612,
          -0.0005953110538706386, 6.932335946503494e-05, 1.3255072286960136e-06,
          -1.2887101799363899e-06, 1.5611719547885736e-07, -8.465728406579198e-09,
          1.7863773158952305e-10)  # fmt: skip

# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969):
# erf near 0, erfc exp(x²) in the middle and, as a series in 1/x², in the tail.
_NEAR = (
    (3.20937758913846947e03, 3.77485237685302021e02, 1.13864154151050156e02,
     3.16112374387056560e00, 1.85777706184603153e-1),
    (2.84423683343917062e03, 1.28261652607737228e03, 2.44024637934444173e02,
     2.36012909523441209e01, 1.0),
)  # fmt: skip
_MIDDLE = (
    (1.23033935479799725e03, 2.05107837782607147e03, 1.71204761263407058e03,
     8.81952221241769090e02, 2.98635138197400131e02, 6.61191906371416295e01,
     8.88314979438837594e00, 5.64188496988670089e-1, 2.15311535474403846e-8),
    (1.23033935480374942e03, 3.43936767414372164e03, 4.36261909014324716e03,
     3.29079923573345963e03, 1.62138957456669019e03, 5.37181101862009858e02,
     1.17693950891312499e02, 1.57449261107098347e01, 1.0),
)  # fmt: skip
_TAIL = (
    (6.58749161529837803e-4, 1.60837851487422766e-2, 1.25781726111229246e-1,
     3.60344899949804439e-1, 3.05326634961232344e-1, 1.63153871373020978e-2),
    (2.33520497626869185e-3, 6.05183413124413191e-2, 5.27905102951428412e-1,
     1.87295284992346725e00, 2.56852019228982242e00, 1.0),
)  # fmt: skip
_PART = 1 << 14
"""Elements whose temporary arrays stay in the cache."""
_END_OF_NEAR, _END_OF_MIDDLE = 0.46875, 4.0
_ONE_OVER_ROOT_PI = 0.5641895835477562869


def erf(x: Array) -> Array:
    """The error function of float32 or float64 elements."""
    return _erf64(x) if x.dtype == np.float64 else _erf32(x)


def _erf32(x: Array) -> Array:
    result = _polynomial(_INNER, x * x)
    result *= x
    result += x
    return np.tanh(result, out=result)


def _erf64(x: Array) -> Array:
    """A part that stays in the cache at a time: many steps read and write each of its elements."""
    result = np.empty(x.shape)
    flat, out = x.reshape(-1), result.reshape(-1)
    for at in range(0, flat.size, _PART):
        out[at : at + _PART] = _erf64_part(flat[at : at + _PART])
    return result


def _erf64_part(x: Array) -> Array:
    """Both usual formulas for every element: that is faster than selecting the elements of each."""
    size = np.abs(x)
    held = np.clip(size, _END_OF_NEAR, _END_OF_MIDDLE)
    result = 1.0 - np.exp(-(held * held)) * _ratio(_MIDDLE, held)
    np.copyto(result, _near(np.minimum(size, _END_OF_NEAR)), where=size <= _END_OF_NEAR)
    if (far := size > _END_OF_MIDDLE).any():
        result[far] = 1.0
        tail = far & (size < 6.0)
        result[tail] = 1.0 - _tail(size[tail])
    return np.copysign(result, x)


def _near(size: Array) -> Array:
    return size * _ratio(_NEAR, size * size)


def _tail(size: Array) -> Array:
    inverse = 1.0 / (size * size)
    series = _ONE_OVER_ROOT_PI - inverse * _ratio(_TAIL, inverse)
    return np.exp(-size * size) * series / size


def _ratio(fraction: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    return _polynomial(fraction[0], x) / _polynomial(fraction[1], x)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Horner's rule in place; coefficients in ascending order."""
    result = x * x.dtype.type(coefficients[-1])
    for c in coefficients[-2:0:-1]:
        result += x.dtype.type(c)
        result *= x
    result += x.dtype.type(coefficients[0])
    return result
