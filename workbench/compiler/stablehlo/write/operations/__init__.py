"""Writers of operations, one file per family."""
