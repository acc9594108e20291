"""The writers of operations, a file a family; each file registers its own."""
