"""Programs in other tools' formats."""
