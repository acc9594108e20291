"""Single nodes: bits, signals, matrices."""

import numpy as np

from tests.onnx.cases import F, L, f, i, n, scalar
from tests.onnx.models import Case

REAL, COMPLEX = f(2, 6, 5, 1), f(2, 6, 5, 2)
SIGNAL, WINDOW = f(2, 20, 1), f(8)

BITS = [
    Case(op, [i(3, 4, type=kind), i(4, type=kind)])
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    for kind in (np.int32, np.uint8)
]
BITS += [
    Case("BitwiseNot", [i(3, 4, type=np.int16)]),
    *[
        Case(
            "BitShift",
            [i(3, 4, low=0, high=99, type=kind), i(4, low=0, type=kind)],
            {"direction": d},
        )
        for kind in (np.uint8, np.uint64)
        for d in ("LEFT", "RIGHT")
    ],
    Case("BitCast", [f(3, 4)], {"to": 6}, opset=26),
]

SPECTRA = [
    Case("DFT", [REAL], {"axis": 1}, opset=17),
    Case("DFT", [REAL], {"axis": 2, "onesided": 1}, opset=17),
    Case("DFT", [COMPLEX], {"axis": 1, "inverse": 1}, opset=17),
    Case("DFT", [REAL, scalar(4, L)], {"axis": 1}, opset=17, fixed=(1,)),
    Case("DFT", [COMPLEX, scalar(8, L)], {"axis": 2}, opset=17, fixed=(1,)),
    Case("DFT", [REAL]),
    Case("DFT", [COMPLEX, None, scalar(1, L)], fixed=(2,)),
    Case("DFT", [COMPLEX, None, scalar(-3, L)], {"inverse": 1}, fixed=(2,)),
    Case("DFT", [REAL, scalar(7, L), scalar(1, L)], {"onesided": 1}, fixed=(1, 2)),
    Case("DFT", [REAL.astype(np.float64), scalar(3, L)], fixed=(1,)),
    Case("STFT", [SIGNAL, scalar(4, L), WINDOW], fixed=(1,)),
    Case("STFT", [SIGNAL, scalar(3, L), WINDOW, scalar(8, L)], {"onesided": 0}, fixed=(1, 3)),
    Case("STFT", [SIGNAL, scalar(5, L), None, scalar(6, L)], fixed=(1, 3)),
    *[
        Case(
            "MelWeightMatrix",
            [*n(bins, length, 16000), *np.array(edges, F)],
            fixed=range(5),
        )
        for bins, length, edges in ((8, 64, (0, 8000)), (20, 31, (125, 7500)), (5, 512, (10, 100)))
    ],
    *[
        Case(f"{kind}Window", [scalar(9, L)], fixed=(0,))
        for kind in ("Hann", "Hamming", "Blackman")
    ],
    Case("HannWindow", [scalar(8, L)], {"periodic": 0, "output_datatype": 11}, fixed=(0,)),
]

MATRICES = [
    Case("Det", [f(3, 3)]),
    Case("Det", [f(2, 2, 4, 4)]),
    Case("CumProd", [f(2, 3, 4), scalar(-1, L)], fixed=(1,), opset=26),
    Case("CumProd", [f(2, 3), scalar(0, L)], {"exclusive": 1, "reverse": 1}, fixed=(1,), opset=26),
]
