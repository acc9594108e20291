"""Precision: narrow and quantized types, calibration, and the search for the layers that bear them."""
