"""Other projects' own interfaces over the same core."""
