"""A page store that cannot silently lose, shrink below its floor, or overwrite what an agent went through."""

from instar.memstore.errors import (
    BatchClosed,
    ImportFailed,
    InvalidRequest,
    MemstoreError,
    Rejected,
    ScopeDenied,
    StaleWrite,
    StoreCorrupted,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreNotPermitted,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    UnresolvedPointer,
)
from instar.memstore.faults import Fault, FaultKind
from instar.memstore.foresight import Foresight, Recollection
from instar.memstore.harness import Harness
from instar.memstore.kinds import Kinds, KindSchema
from instar.memstore.maintenance import Maintenance, Retention
from instar.memstore.opening import open_store
from instar.memstore.pages import (
    Level,
    Page,
    PageDraft,
    PageType,
    Pin,
    Provenance,
    Representations,
    State,
)
from instar.memstore.redaction import Finding, Redacted, Redactor, redact
from instar.memstore.scopes import Principal
from instar.memstore.staging import Flushed
from instar.memstore.store import Store
from instar.memstore.templates import Templates, ToolTemplate, infer_template
from instar.memstore.trace import Difference, Run, decisions, replay
from instar.memstore.transfer import Imported
from instar.memstore.turns import Context, SessionStart, ToolStart
from instar.memstore.writeback import Writeback
from instar.memstore.writes import (
    Change,
    JournalEntry,
    JournalStatus,
    Limits,
    Op,
    ReasonCode,
    Receipt,
    Rejection,
)

__all__ = [
    "BatchClosed",
    "Change",
    "Context",
    "Difference",
    "Fault",
    "FaultKind",
    "Finding",
    "Flushed",
    "Foresight",
    "Harness",
    "ImportFailed",
    "Imported",
    "InvalidRequest",
    "JournalEntry",
    "JournalStatus",
    "KindSchema",
    "Kinds",
    "Level",
    "Limits",
    "Maintenance",
    "MemstoreError",
    "Op",
    "Page",
    "PageDraft",
    "PageType",
    "Pin",
    "Principal",
    "Provenance",
    "ReasonCode",
    "Receipt",
    "Recollection",
    "Redacted",
    "Redactor",
    "Rejected",
    "Rejection",
    "Representations",
    "Retention",
    "Run",
    "ScopeDenied",
    "SessionStart",
    "StaleWrite",
    "State",
    "Store",
    "StoreCorrupted",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "StoreNotPermitted",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnavailable",
    "Templates",
    "ToolStart",
    "ToolTemplate",
    "UnresolvedPointer",
    "Writeback",
    "decisions",
    "infer_template",
    "open_store",
    "redact",
    "replay",
]
