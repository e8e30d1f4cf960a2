"""What a server must remember over a restart: clients, keys, requests and what each used, in SQLite."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacita.server.store.ledger import Ledger as Ledger


def __getattr__(name: str) -> Any:
    """Returns `Ledger`, whose database takes longer to load than a command takes to refuse an option."""
    if name == "Ledger":
        from tacita.server.store.ledger import Ledger

        return Ledger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
