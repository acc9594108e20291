"""MIGraphX's printers: programs as Python and C++ that build them, for Graphviz and for Netron."""
