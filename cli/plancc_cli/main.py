"""The entry point of `plancc`; all that takes time to import comes after signals are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plancc_cli.missing import imports_of
from plancc_cli.supervisor import supervise

if TYPE_CHECKING:
    from plancc_cli.group import command

__all__ = ["command", "main"]


def __getattr__(name: str) -> Any:
    if name != "command":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from plancc_cli.group import command

    return command


def main() -> None:
    """Console entry point: one sentence on stderr and exit code 0 (done), 1 (failed), 2 (usage)."""
    supervise("plancc", _work)


def _work() -> None:
    with imports_of("plancc"):
        from plancc_cli.group import run

    run()


if __name__ == "__main__":
    main()
