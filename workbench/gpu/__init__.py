"""Programs on devices: kernels from one emitter, three runtimes behind one protocol."""
