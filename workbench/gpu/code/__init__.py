"""Machine code of kernels: compilation, the cache on disk, object files and disassembly."""
