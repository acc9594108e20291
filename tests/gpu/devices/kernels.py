"""Small kernels in the words of every dialect, and what the tests of devices do with them."""

from contextlib import contextmanager

import numpy as np

ADD = """
KERNEL(64) add(GLOBAL const f32 *a, GLOBAL f32 *b, i32 n, f32 c) {
  i32 i = GROUP(0) * 64 + LOCAL(0);
  if (i < n) b[i] = a[i] + c;
}
"""
SUM = """
KERNEL(64) sum(GLOBAL const f32 *a, GLOBAL f32 *b) {
  SHARED f32 s[64];
  i32 i = LOCAL(0);
  s[i] = a[GROUP(0) * 64 + i];
  BARRIER();
  for (i32 h = 32; h > 0; h /= 2) {
    if (i < h) s[i] += s[i + h];
    BARRIER();
  }
  if (i == 0) b[GROUP(0)] = s[0];
}
"""


@contextmanager
def memory(device, bytes):
    buffer = device.allocate(bytes)
    try:
        yield buffer
    finally:
        device.synchronize()
        device.free(buffer)


def built(device, source, name):
    return device.load(device.compiler.compile(device.dialect.prologue + source, name), name)


def scalars(n, c):
    return [np.int32(n).tobytes(), np.float32(c).tobytes()]
