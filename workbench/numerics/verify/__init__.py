"""Verification: a target against the reference as MIGraphX's driver does it, and generated inputs."""
