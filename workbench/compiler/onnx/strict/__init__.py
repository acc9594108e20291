"""Handlers for strict imports: what MIGraphX's importer writes where ``nodes`` would write something else."""
