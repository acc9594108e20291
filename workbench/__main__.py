"""``python -m workbench``: the command ``workbench``, for when it is not on the path."""

from workbench.cli import main

if __name__ == "__main__":
    main()
