"""The device target: one emitter of kernels, and three runtimes (CUDA, HIP, OpenCL) behind one interface."""
