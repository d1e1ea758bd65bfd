"""`python -m fencepost`: the command line if the console script is not on the path."""

from fencepost.cli import main

if __name__ == "__main__":
    main()
