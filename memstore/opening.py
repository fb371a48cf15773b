"""Opens a store by its address."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from instar.memstore.backend import Backend
from instar.memstore.errors import InvalidRequest
from instar.memstore.kinds import Kinds
from instar.memstore.memory import MemoryBackend
from instar.memstore.redaction import Redactor, redact
from instar.memstore.represent import Representer
from instar.memstore.sqlite import SqliteBackend
from instar.memstore.store import Store, utc_now
from instar.memstore.writes import Limits

_SQLITE = "sqlite:///"
_POSTGRES = "postgresql+psycopg://"


def open_store(
    address: str,
    *,
    redactor: Redactor | None = None,
    representer: Representer | None = None,
    kinds: Kinds | None = None,
    limits: Limits | None = None,
    busy_timeout: float = 30.0,
    clock: Callable[[], datetime] = utc_now,
) -> Store:
    """Open the store at an address, making or migrating it where needed.

    `sqlite:////absolute/path` (or `sqlite:///relative/path`) is a file, `postgresql+psycopg://user@host/name` a
    database on a server, `memory:` lives in this process only. `kinds` holds schemas of kinds and templates of
    tools; without them a page of any kind is taken. A `representer` of one's own brings its own.

    Raises:
        InvalidRequest: the address has no meaning here.
        StoreUnavailable: the store cannot be opened; the subclass says why, the message what to do.
    """
    backend = _backend(address, busy_timeout)
    if representer is None:
        representer = Representer(fields=kinds)
    return Store(backend, redactor=redactor, representer=representer, limits=limits, clock=clock)


def _backend(address: str, busy_timeout: float) -> Backend:
    if address == "memory:":
        return MemoryBackend()
    if address.startswith(_SQLITE) and len(address) > len(_SQLITE):
        return SqliteBackend(Path(address.removeprefix(_SQLITE)), busy_timeout=busy_timeout)
    if address.startswith(_POSTGRES):
        # The driver is an extra: who keeps pages in a file need not have it.
        from instar.memstore.postgres import PostgresBackend  # noqa: PLC0415

        return PostgresBackend(address, busy_timeout=busy_timeout)
    raise InvalidRequest(f"not the address of a store: {redact(address).text!r}")
