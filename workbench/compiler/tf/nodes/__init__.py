"""The importers of operators, a file a family."""
