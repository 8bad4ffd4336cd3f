"""`python -m lakedex`: the command line, where its script is not on the path."""

from lakedex.cli.main import main

if __name__ == "__main__":
    main()
