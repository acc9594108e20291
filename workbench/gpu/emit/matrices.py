"""Values computed from a whole matrix, which one work item holds in private memory."""

from __future__ import annotations

from workbench.compiler.ir.instruction import Instruction
from workbench.compiler.ops.matrices import Det
from workbench.gpu.emit.scalar import Scalar, c_type, cast
from workbench.gpu.emit.sums import finished, over, real_type
from workbench.gpu.emit.tensors import Indices, Tensors, value_of

_SIDE = 16
"""Most rows of such a matrix."""

_DETERMINANT = """\
DEVICE {T} determinant_{n}_{T}({T} *m) {{
  {T} made = 1;
  for (i32 k = 0; k < {n}; ++k) {{
    i32 best = k;
    for (i32 r = k + 1; r < {n}; ++r) if (fabs(m[r * {n} + k]) > fabs(m[best * {n} + k])) best = r;
    if (m[best * {n} + k] == 0) return 0;
    if (best != k) {{
      made = -made;
      for (i32 c = k; c < {n}; ++c) {{
        {T} other = m[k * {n} + c];
        m[k * {n} + c] = m[best * {n} + c];
        m[best * {n} + c] = other;
      }}
    }}
    made *= m[k * {n} + k];
    for (i32 r = k + 1; r < {n}; ++r) {{
      {T} factor = m[r * {n} + k] / m[k * {n} + k];
      for (i32 c = k + 1; c < {n}; ++c) m[r * {n} + c] -= factor * m[k * {n} + c];
    }}
  }}
  return made;
}}"""
"""Gaussian elimination in place, with partial pivoting."""


@value_of(Det, when=lambda i: i.inputs[0].shape.lens[-1] <= _SIDE)
def determinant(t: Tensors, i: Instruction, index: Indices, part: int) -> Scalar:
    """The determinant of a small matrix."""
    x, w = i.inputs[0], t.w
    n, work = x.shape.lens[-1], real_type(i.shape.type)
    kind = c_type(work)
    lead = index if x.shape.ndim > 2 else ()
    matrix = w.array(kind, max(n * n, 1), "m")
    with over(w, (n, n)) as (row, column):
        value = cast(w, t.at(x, (*lead, row, column)), work).text
        w.line(f"{matrix}[{(row * n + column).text()}] = {value};")
    w.need(_DETERMINANT.format(T=kind, n=n))
    made = w.let(kind, f"determinant_{n}_{kind}({matrix})")
    return finished(w, Scalar(made, work), i.shape.type)
