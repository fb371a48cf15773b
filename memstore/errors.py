"""Every way in which the page store says no.

    MemstoreError
    ├── InvalidRequest        the caller asked for something that has no meaning
    ├── ScopeDenied           the principal holds no grant on the scope
    ├── Rejected              a batch failed validation; nothing of it was applied
    │   └── StaleWrite            pages moved on since they were read: read again and merge
    ├── UnresolvedPointer     a handle does not resolve to the identical bytes
    ├── ImportFailed          an export is cut short, changed, or at odds with what is stored
    ├── BatchClosed           the batch was committed or abandoned before
    └── StoreUnavailable      the machine, not the request, is at fault
        ├── StoreNotPermitted     the operating system refuses the file
        ├── StoreReadOnly         the file can be read and not written
        ├── StoreFull             no space is left
        ├── StoreLocked           another process holds the write lock for too long
        ├── StoreCorrupted        the file is not a sound database
        ├── StoreTooNew           the file was written by a newer version
        └── StoreFailed           any other failure of the database

A failure of the store never looks like an empty answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from instar.memstore.writes import Rejection


class MemstoreError(Exception):
    """Base of everything that this package raises on purpose."""


class InvalidRequest(MemstoreError):
    """The request has no meaning, for example a scope with an empty segment."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        return self.what


class ScopeDenied(MemstoreError):
    """The principal holds no grant on this scope; it is not said what is in there."""

    def __init__(self, principal: str, scope: str) -> None:
        self.principal, self.scope = principal, scope
        super().__init__(principal, scope)

    def __str__(self) -> str:
        return f"{self.principal!r} holds no grant on {self.scope!r}"


class Rejected(MemstoreError):
    """A batch failed validation. Nothing of it was applied; the journal holds the reasons."""

    def __init__(self, batch: str, rejections: list[Rejection]) -> None:
        self.batch, self.rejections = batch, rejections
        super().__init__(batch, rejections)

    def __str__(self) -> str:
        shown = "; ".join(str(rejection) for rejection in self.rejections[:5])
        more = f"; and {len(self.rejections) - 5} more" if len(self.rejections) > 5 else ""
        return f"nothing was written: {shown}{more}"


class StaleWrite(Rejected):
    """A batch was rejected for nothing else than that pages moved on since they were read: read again and merge."""


class UnresolvedPointer(MemstoreError):
    """A handle names no page version, or the bytes behind it are not those it was made for."""

    def __init__(self, handle: str, reason: str) -> None:
        self.handle, self.reason = handle, reason
        super().__init__(handle, reason)

    def __str__(self) -> str:
        return f"{self.handle}: {self.reason}"


class ImportFailed(MemstoreError):
    """An export cannot be taken in; nothing of it was. `line` counts from 1, 0 means the file as a whole."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(line, reason)

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


class BatchClosed(MemstoreError):
    """The batch was committed or abandoned before; open another one."""

    def __init__(self, batch: str) -> None:
        self.batch = batch
        super().__init__(batch)

    def __str__(self) -> str:
        return f"batch {self.batch} is closed"


class StoreUnavailable(MemstoreError):
    """The store cannot serve. `location` names the file or server, `reason` what it said."""

    remedy = "see the reason"

    def __init__(self, location: str, reason: str) -> None:
        self.location, self.reason = location, reason
        super().__init__(location, reason)

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}; {self.remedy}"


class StoreNotPermitted(StoreUnavailable):
    """The operating system refuses to open the file."""

    remedy = "give this user read and write permission on the file and its folder, or name another place"


class StoreReadOnly(StoreUnavailable):
    """The file can be read and not written."""

    remedy = "make the file and its folder writable, or name a copy"


class StoreFull(StoreUnavailable):
    """The disk or the quota is full. What was committed before is safe."""

    remedy = "free some space and try again; what was committed before is safe"


class StoreLocked(StoreUnavailable):
    """Another process kept the write lock for longer than the busy time-out."""

    remedy = "try again, or end the process that holds the lock; nothing was written"


class StoreCorrupted(StoreUnavailable):
    """The file is not a sound database. It is left as it is."""

    remedy = "keep the file, restore the last export or backup under another name"


class StoreTooNew(StoreUnavailable):
    """The file was written by a newer version of this package. It is left as it is."""

    remedy = "install the newer version"

    def __init__(self, location: str, found: int, supported: int) -> None:
        super().__init__(location, f"has schema version {found}, this version reads up to {supported}")
        self.found, self.supported = found, supported
        self.args = (location, found, supported)


class StoreFailed(StoreUnavailable):
    """The database failed in a way that none of the others describes."""

    remedy = "look at the database and try again; a batch with a key is never written twice"


def rejected(batch: str, rejections: list[Rejection]) -> Rejected:
    """The error for these reasons."""
    stale = all(rejection.code == "STALE_VERSION" for rejection in rejections)
    return StaleWrite(batch, rejections) if stale else Rejected(batch, rejections)
