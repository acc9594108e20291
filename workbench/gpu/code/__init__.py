"""Machine code: compiled, cached on disk, taken apart and disassembled."""
