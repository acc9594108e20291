"""Every operation, one file a family. Looking an operation up by name imports them all."""
