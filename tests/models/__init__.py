"""Models that the tests and the benchmarks run: a table of them and the scripts that make them."""
