"""`python -m plancc_cli`: the command `plancc`, where its program is not in the path."""

from plancc_cli.main import main

if __name__ == "__main__":
    main()
