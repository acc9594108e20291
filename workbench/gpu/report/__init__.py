"""Reports on kernels: the steps of a run, each kernel's code and needs, timings, and coverage."""
