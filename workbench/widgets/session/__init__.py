"""A session: what is open in the workbench, its settings, and the builds, results and reports made so far."""
