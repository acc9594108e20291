"""Reports: results, timings, kernels and memory as tables and plots."""
