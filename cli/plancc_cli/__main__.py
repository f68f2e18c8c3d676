"""`python -m plancc_cli` runs the command `plancc`, also where `plancc` is not in PATH."""

from plancc_cli.main import main

if __name__ == "__main__":
    main()
