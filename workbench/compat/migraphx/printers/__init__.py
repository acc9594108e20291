"""MIGraphX's printers: programs as Python and C++ that build them."""
