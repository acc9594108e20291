"""Generators of matrix products."""

import numpy as np

from tests.onnx.against_onnxruntime.pick import Example, Pick, covers, is_float
from tests.onnx.against_onnxruntime.windows import scale


def factors(pick: Pick) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lengths of two arrays that can be multiplied, vectors and batches among them."""
    # The sum over an inner length of 0 is 0; onnxruntime leaves the memory as it was.
    inner, rows, columns = pick.integer(1, 5), pick.integer(1, 4), pick.integer(1, 4)
    left, right = pick.together(2, 2, empty=False)  # it does not broadcast to no batches
    a = (inner,) if pick.rarely() else (*left, rows, inner)
    b = (inner,) if pick.rarely() else (*right, inner, columns)
    return a, b


@covers("MatMul")
def matmul(pick: Pick) -> Example:
    type = pick.type()
    return Example([pick.array(type, lens) for lens in factors(pick)], summed=True)


@covers("Gemm")
def gemm(pick: Pick) -> Example:
    type = pick.type()
    rows, inner, columns = pick.integer(1, 4), pick.integer(1, 4), pick.integer(1, 4)
    left, right = pick.flag(), pick.flag()
    a = pick.array(type, (inner, rows) if left else (rows, inner))
    b = pick.array(type, (columns, inner) if right else (inner, columns))
    attributes = {"transA": int(left), "transB": int(right)}
    attributes |= pick.some(alpha=pick.number(-2, 2), beta=pick.number(-2, 2))
    c = pick.array(type, pick.broadcastable((rows, columns)))
    absent = pick.opset >= 11 and pick.rarely()
    return Example([a, b] if absent else [a, b, c], attributes, summed=True)


@covers("MatMulInteger")
def matmul_integer(pick: Pick) -> Example:
    first, second = pick.types("T1", "T2")
    a, b = factors(pick)
    # A zero point for each column is a vector only if there are no batches, onnxruntime says.
    lens = b[-1:] if len(b) == 2 and pick.flag() else ()
    zeros = [zero(pick, first, ()), zero(pick, second, lens)]
    arrays = [pick.array(first, a, -128, 255), pick.weights(second, b)]
    return Example([*arrays, *zeros])


def zero(pick: Pick, type: str, lens: tuple[int, ...]):
    """A zero point, at times left out."""
    return pick.array(type, lens, 0, 20) if pick.flag() else None


@covers("QLinearMatMul")
def qlinear_matmul(pick: Pick) -> Example:
    first, second, last = pick.types("T1", "T2", "T3")
    a, b = factors(pick)
    x, y = pick.array(first, a, -128, 255), pick.weights(second, b)
    lens = b[-1:] if len(b) == 2 and pick.flag() else ()
    inputs = [x, scale(pick), pick.scalar(first, 0, 9)]
    inputs += [y, scale(pick, lens), pick.array(second, lens, 0, 9)]
    return Example([*inputs, np.float32(0.5), pick.scalar(last, 0, 9)])


@covers("com.microsoft.MatMulIntegerToFloat")
def matmul_integer_to_float(pick: Pick) -> Example:
    first, second = pick.types("T1", "T2")
    rows, inner, columns = pick.integer(1, 4), pick.integer(1, 5), pick.integer(1, 4)
    a, b = (
        pick.array(first, (rows, inner), -128, 255),
        pick.weights(second, (inner, columns)),
    )
    lens = (columns,) if pick.flag() else ()
    zeros = [zero(pick, first, ()), zero(pick, second, lens)]
    bias = pick.array("float", (columns,)) if pick.flag() else None
    return Example([a, b, scale(pick), scale(pick, lens), *zeros, bias], summed=True)


@covers("com.microsoft.MatMulNBits")
def matmul_n_bits(pick: Pick) -> Example:
    rows, inner, columns = pick.integer(1, 3), pick.integer(1, 3) * 16, pick.integer(1, 3)
    block, bits = pick.one_of([16, 32]), pick.one_of([2, 4, 4, 8])
    blocks = -(-inner // block)
    weights = pick.array("uint8", (columns, blocks, block * bits // 8), 0, 255)
    scales = pick.array("float", (columns, blocks), 0.1, 1)
    scales = scales.reshape(pick.one_of([(columns, blocks), (-1,)]))
    x = pick.array("float", (*pick.lens(0, 2, empty=False), rows, inner))
    zeros = pick.array("uint8", (columns, -(-blocks * bits // 8)), 0, 255)
    bias = pick.array("float", (columns,)) if pick.flag() else None
    inputs = [x, weights, scales, zeros if pick.flag() else None, None, bias]
    attributes = {"K": inner, "N": columns, "block_size": block, "bits": bits}
    return Example(inputs, attributes, fixed=(1, 2, 3), summed=True)


@covers("com.microsoft.GatherBlockQuantized")
def gather_block_quantized(pick: Pick) -> Example:
    kind, number, index = pick.types("T1", "T2", "Tind")
    block, bits = pick.one_of([16, 32]), pick.one_of([2, 4, 4, 8]) if kind == "uint8" else 4
    rank = pick.integer(2, 3)
    across, along = (
        (0, rank - 1) if kind == "uint8" else (pick.integer(0, rank - 1), pick.integer(0, rank - 1))
    )
    lens = [pick.integer(1, 4) for _ in range(rank)]
    lens[along] = pick.one_of([1, 2, 3]) * 16
    blocks = [-(-n // block) if k == along else n for k, n in enumerate(lens)]
    packed = 8 // bits if kind == "uint8" else 1
    stored = [*lens[:-1], lens[-1] // packed]
    points = [*blocks[:-1], -(-blocks[-1] // packed)]
    data = pick.array(kind, stored, -300, 300)
    zeros = pick.array(kind, points, -300, 300) if pick.flag() and not is_float(kind) else None
    most = lens[across]
    indices = pick.array(index, pick.lens(0, 2), -most, most - 1)
    inputs = [data, indices, pick.array(number, blocks, 0.1, 1), zeros]
    attributes = {"block_size": block, "gather_axis": across, "quantize_axis": along, "bits": bits}
    return Example(inputs, attributes, fixed=(0, 2, 3))


@covers("com.microsoft.MatMulBnb4")
def matmul_bnb4(pick: Pick) -> Example:
    rows, inner, columns, block = (
        pick.integer(1, 3),
        pick.one_of([16, 19, 32]),
        pick.integer(1, 3),
        16,
    )
    weights = pick.array("uint8", (-(-columns * inner // 2),), 0, 255)
    largest = pick.array("float", (-(-columns * inner // block),), 0.1, 1)
    attributes = {"K": inner, "N": columns, "block_size": block, "quant_type": pick.integer(0, 1)}
    inputs = [pick.array("float", (rows, inner)), weights, largest]
    return Example(inputs, attributes, fixed=(1, 2), summed=True)


EQUATIONS = [
    ("ij,jk->ik", "ij", "jk"), ("ij,jk", "ij", "jk"), ("bij,bjk->bik", "bij", "bjk"), ("ii->i", "ii"),
    ("ij->ji", "ij"), ("ij->", "ij"), ("i,i->", "i", "i"), ("i,j->ij", "i", "j"), ("ijk->kj", "ijk"),
    ("ij,ij->j", "ij", "ij"), ("bi,bj,bk->ijk", "bi", "bj", "bk"), ("i,ij,j->", "i", "ij", "j"),
    ("...ij,...jk->...ik", "abij", "abjk"), ("a...b->...", "ajb"), ("iij->j", "iij"), ("ji", "ji"),
]  # fmt: skip


@covers("Einsum")
def einsum(pick: Pick) -> Example:
    type = pick.type()
    equation, *terms = pick.one_of(EQUATIONS)
    sizes = {letter: pick.integer(1, 4) for letter in "abijk"}
    arrays = [pick.array(type, [sizes[letter] for letter in term]) for term in terms]
    spaced = equation.replace(",", " , ") if pick.flag() else equation
    return Example(arrays, {"equation": spaced}, summed=is_float(type), slack=4)
