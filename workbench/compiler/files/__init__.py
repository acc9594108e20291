"""Programs and recordings as files."""
