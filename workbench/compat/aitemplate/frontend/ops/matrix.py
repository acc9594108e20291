"""Matrix products with epilogues; a letter of a name says that a matrix lies in rows or in columns."""

from __future__ import annotations

from workbench.compat.aitemplate.frontend.operator import Lengths, Operator
from workbench.compat.aitemplate.frontend.ops import epilogues
from workbench.compat.aitemplate.frontend.tensor import Tensor
from workbench.compiler.expressions.value import Value

_GEMMS = (
    "gemm_rcr", "gemm_rcr_bias", "gemm_rcr_bias_add", "gemm_rcr_bias_add_add", "gemm_rcr_bias_add_add_relu",
    "gemm_rcr_bias_add_relu", "gemm_rcr_bias_fast_gelu", "gemm_rcr_bias_gelu", "gemm_rcr_bias_hardswish",
    "gemm_rcr_bias_mul", "gemm_rcr_bias_mul_add", "gemm_rcr_bias_mul_tanh", "gemm_rcr_bias_relu",
    "gemm_rcr_bias_sigmoid", "gemm_rcr_bias_sigmoid_mul", "gemm_rcr_bias_sigmoid_mul_tanh",
    "gemm_rcr_bias_softmax", "gemm_rcr_bias_swish", "gemm_rcr_bias_tanh", "gemm_rcr_fast_gelu",
    "gemm_rcr_softmax", "gemm_rrr", "gemm_rrr_bias",
)  # fmt: skip
_BMMS = (
    *(f"bmm_{a}{b}{c}{e}" for a in "rc" for b in "rc" for c in "rc" for e in ("", "_add")),
    "bmm_rcr_softmax",
)


class Product(Operator):
    """A product of two matrices, and what the rest of the name says is done to it."""

    batched = False

    @property
    def layout(self) -> str:
        """The letters for the left matrix, the right one and the result."""
        return self.name.split("_")[1]

    @property
    def epilogue(self) -> str:
        """The rest of the name."""
        return self.name.split("_", 2)[2] if self.name.count("_") > 1 else ""

    def __call__(self, a: Tensor, b: Tensor, *rest: Tensor) -> Tensor:
        """Multiply two matrices.

        Raises:
            ValueError: The operands are too few or too many, of several types, or do not fit.
        """
        expected = 2 + epilogues.operands(self.epilogue)
        if 2 + len(rest) != expected:
            raise self.fail(f"{2 + len(rest)} operands; expected {expected}")
        for k, t in enumerate((a, b, *rest)):
            if isinstance(t, Tensor) and t.dtype() != a.dtype():  # pyright: ignore[reportUnnecessaryIsInstance] - users err
                raise self.fail(f"operand {k} is {t}; expected {a.dtype()}, as operand 0 has")
        for k, t in enumerate((a, b)):
            ranks = (3,) if self.batched and k == 1 else (2, 3) if self.batched else (2,)
            if isinstance(t, Tensor) and len(t.shape()) not in ranks and (self.batched or k):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
                raise self.fail(f"operand {k} is {t}; expected rank {' or '.join(map(str, ranks))}")
        return self.record(a, b, *rest)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """The product in rows, or in columns, and its epilogue."""
        a, b, *rest = values
        left, right, out = self.layout
        found = (a if left == "r" else a.mT) @ (b if right == "r" else b.mT)
        return epilogues.applied_to(found if out == "r" else found.mT, self.epilogue, iter(rest))


class BatchedProduct(Product):
    """A product for each matrix of a batch."""

    batched = True


class bmm_softmax_bmm(Operator):  # noqa: N801 - AITemplate's name
    """``softmax(scale * a @ bᵀ) @ c`` for each matrix of a batch."""

    def __init__(self, scale: float = 1.0) -> None:
        """With a factor before the softmax."""
        super().__init__(scale=scale)

    def __call__(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Add it to a graph."""
        return self.record(a, b, c)

    def meaning(self, at: Lengths, *values: Value) -> Value:
        """Both products, and the softmax between them."""
        a, b, c = values
        return (a @ b.mT * self._attrs["scale"]).apply("softmax", axis=-1) @ c


PRODUCTS: dict[str, type[Operator]] = {
    **{n: type(n, (Product,), {"__doc__": f"``{n}``: see `Product`."}) for n in _GEMMS},
    **{
        n: type(n, (BatchedProduct,), {"__doc__": f"``{n}``: see `BatchedProduct`."}) for n in _BMMS
    },
    "bmm_softmax_bmm": bmm_softmax_bmm,
}
"""All products by name."""
