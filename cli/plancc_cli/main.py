"""The entry point of `plancc`, which handles signals before it begins the slow imports."""

from __future__ import annotations

from plancc_cli import interrupts


def main() -> None:
    """Run `plancc`, and end with exit code 0 (done), 1 (failed) or 2 (wrong usage)."""
    interrupts.let_kill()
    from plancc_cli.signals import answering

    answering("plancc", _work)


def _work() -> None:
    from plancc_cli.missing import imports_of

    with imports_of("plancc"):
        from plancc_cli.group import run

    run()


if __name__ == "__main__":
    main()
