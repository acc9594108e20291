"""Reports: the steps of a run, each kernel's code and resources, timings, and coverage."""
