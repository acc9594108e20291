"""All operations, one file per family. Looking up an operation by name imports them all."""
