"""The built-in targets: declared at the workbench's root, imported when targets are needed."""

PLACES: dict[str, str] = {}
"""The location of each target, ``module:attribute``, by the target's name."""


def declare(name: str, place: str) -> None:
    """List a target without importing it.

    Args:
        name: The target's name.
        place: Its location, ``module:attribute``.
    """
    PLACES[name] = place
