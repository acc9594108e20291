"""The targets that come with the workbench: declared at its root, imported when targets are asked for."""

PLACES: dict[str, str] = {}
"""By the target's name, ``module:attribute``."""


def declare(name: str, place: str) -> None:
    """List a target without importing it.

    Args:
        name: The target's name.
        place: Where it is, as ``module:attribute``.
    """
    PLACES[name] = place
