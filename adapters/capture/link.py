"""The recorder's connection to the store, which may break at any time and is taken up again later."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from instar.adapters.capture.answers import Finished
from instar.adapters.capture.context import Brief, Held, frame_tokens
from instar.core import spool
from instar.core.errors import InstarError
from instar.core.live import MESSAGE, TOOL_CALL, Event, Feeder, live_scope, read_lines, run_id
from instar.core.settings import Settings
from instar.memstore import Foresight, Harness, MemstoreError, Principal, State, Store, open_store
from instar.memstore.redaction import default_redactor, redact_fields

if TYPE_CHECKING:
    from instar.memstore.recall import Recall

BUSY_SECONDS = 2.0
"""How long an agent waits for a locked store before it goes on without."""
RETRY_SECONDS = 5.0
_REDACTED = "[REDACTED:"
log = logging.getLogger("instar.capture")


class Link:
    """Store, harness and feeder of one session; while the store is broken, `problem` says why."""

    def __init__(
        self,
        settings: Settings,
        *,
        agent: str,
        session: str,
        project: str,
        folder: str,
        task: str = "",
        topics: Sequence[str] = (),
    ) -> None:
        self._settings, self._folder = settings, folder
        self._agent, self._session, self._project = agent, session, project
        self._task, self._topics = task, topics
        self._run = run_id(agent, project, session)
        self._scope = live_scope(settings.scope, project, self._run)
        self._by = Principal("instar", (settings.scope,))
        self._store: Store | None = None
        self._harness: Harness | None = None
        self._feeder: Feeder | None = None
        self._recall: Recall | None = None
        self._retry_at = 0.0
        self._budget = 0
        self.problem = ""

    @property
    def connected(self) -> bool:
        """Whether the store is in use."""
        return self._harness is not None

    @property
    def faults(self) -> Mapping[str, int]:
        """Faults by kind."""
        if self._harness is None:
            return {}
        return {kind.value: count for kind, count in self._harness.ledger.faults.items() if count}

    def connect(self, budget: int) -> None:
        """Open the store and begin the session, with what its earlier processes left in the spool."""
        self._budget = budget
        store = None
        try:
            store = open_store(self._settings.database, busy_timeout=BUSY_SECONDS)
            foresight = self._foresight(store)
            harness = Harness(
                store, self._by, scope=self._scope, session=self._run, budget=budget, foresight=foresight
            )
            harness.session_start()
            feeder = Feeder(harness, store, self._by, scope=self._scope, run=self._run)
            self._take_over(feeder)
        except (MemstoreError, OSError) as error:
            if self._recall is not None:
                self._recall.close()
            if store is not None:
                store.close()
            self._failed(error)
            return
        self._store, self._harness, self._feeder, self.problem = store, harness, feeder, ""

    def feed(self, events: Sequence[Event], *, final: bool) -> tuple[Event, ...] | None:
        """Record events; returns those that are not finished, or None when the store cannot be used."""
        if not self._ready():
            return None
        if not events or self._feeder is None:
            return ()
        try:
            fed = self._feeder.feed_fit(events, final=final)
        except (MemstoreError, OSError) as error:
            self._failed(error)
            return None
        if fed.refused:
            self.alarm(f"the store refused {fed.refused} events; `instar journal` says why")
        return fed.open

    def finished(self) -> list[Finished]:
        """Calls of this session that succeeded in earlier processes, oldest first."""
        if self._store is None:
            return []
        found = []
        try:
            for page in self._store.find(
                self._by, scope=self._scope, session=self._run, kind=TOOL_CALL, state=State.SUCCESS
            ):
                arguments, value = page.content.get("arguments"), page.content.get("value")
                whole = not (isinstance(value, dict) and value.get("truncated")) and _REDACTED not in page.full
                if whole and isinstance(arguments, dict):
                    call, tool = str(page.content.get("call")), str(page.content.get("tool"))
                    found.append(Finished(call, tool, arguments, value))
        except MemstoreError as error:
            self._failed(error)
        return found

    def said(self) -> list[str]:
        """The keys of the messages of this session that are recorded."""
        if self._store is None:
            return []
        try:
            found = self._store.find(self._by, scope=self._scope, session=self._run, kind=MESSAGE)
            return [said_key(str(page.content.get("speaker")), page.text) for page in found]
        except MemstoreError as error:
            self._failed(error)
            return []

    def assemble(self, budget: int, brief: Brief, query: str) -> Held:
        """What the session holds that fits into the budget, with lessons and skills for what is asked."""
        if self._harness is None or self._store is None:
            return Held(problem=self.problem)
        try:
            lessons, skills = brief.find(
                self._settings,
                self._store,
                self._by,
                project=self._project,
                query=query,
                budget=budget // 4,
                lessons=self._recall is None,
            )
            self._harness.budget = max(budget - frame_tokens() - brief.tokens, 0)
            return Held(self._harness.assemble().text, lessons, skills)
        except MemstoreError as error:
            self._failed(error)
            return Held(problem=self.problem)

    def conclude(self, told: Sequence[Event]) -> None:
        """Bring the session to where it is learned from; the last event told is its end."""
        if self._store is None:
            return
        # Only who ends a session needs the engines.
        from instar.core.drain import learn_from  # noqa: PLC0415
        from instar.core.runtime import Runtime  # noqa: PLC0415

        try:
            learn_from(Runtime(self._settings, self._store), told)
        except (MemstoreError, InstarError) as error:
            self._failed(error)

    def redacted(self, event: Mapping[str, JsonValue]) -> str:
        """The line of an event, without secrets."""
        clean, _ = redact_fields(default_redactor(), event, "event")
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))

    def clean(self, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Arguments as they are recorded."""
        return redact_fields(default_redactor(), arguments, "arguments")[0]

    def alarm(self, reason: str) -> None:
        """Tell whoever looks at the log or asks `instar doctor`."""
        log.warning("instar: %s", reason)
        try:
            spool.note_failure(self._folder, reason)
        except OSError as error:
            log.warning("instar: %s", error)

    def close(self) -> None:
        """Commit and give back the store."""
        harness, store, recall = self._harness, self._store, self._recall
        self.abandon()
        if store is None or harness is None:
            return
        try:
            harness.close()
            if not self.problem:
                spool.clear_failure(self._folder)
        except (MemstoreError, OSError) as error:
            self._failed(error)
        if recall is not None:
            recall.close()
        store.close()

    def abandon(self) -> None:
        """Use this connection no more, and leave it as it is."""
        self._store = self._harness = self._feeder = self._recall = None

    def _foresight(self, store: Store) -> Foresight | None:
        """Recall beside the store, where it is wished and can be had: a session goes on without."""
        if not self._settings.prime:
            return None
        # Only who wishes it needs the index.
        from instar.adapters.capture.foresight import open_foresight  # noqa: PLC0415

        try:
            self._recall, foresight = open_foresight(
                self._settings,
                store,
                self._by,
                project=self._project,
                session=self._run,
                task=self._task,
                topics=self._topics,
            )
        except (MemstoreError, InstarError, OSError) as error:
            log.warning("instar: nothing is recalled in this session: %s", error)
            return None
        return foresight

    def _ready(self) -> bool:
        if self._harness is None and time.monotonic() >= self._retry_at:
            self.connect(self._budget)
        return self._harness is not None

    def _failed(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        store, recall = self._store, self._recall
        self.abandon()
        self.problem = str(error)
        self.alarm(f"the store cannot be used, events stay in the spool: {error}")
        if recall is not None:
            recall.close()
        if store is not None:
            store.close()

    def _take_over(self, feeder: Feeder) -> None:
        """Record what dead processes of this session left in the spool."""
        try:
            for path, descriptor in spool.take(self._folder, only=spool.file_name(self._agent, self._session)):
                lines = [event for _, event in read_lines(descriptor)]
                mine = [event for event in lines if event is not None and event.run == self._run]
                if len(mine) == len(lines):  # anything else is left to `drain`, which keeps and reports it
                    feeder.feed_fit(mine, final=True)
                    Path(path).unlink()
        except OSError as error:
            self.alarm(f"the spool cannot be read: {error.strerror or error}")


@lru_cache(maxsize=4096)
def said_key(speaker: str, text: str) -> str:
    """What makes two messages the same; as they are recorded, that is without secrets."""
    redactor = default_redactor()
    clean = redactor.redact(text).text if redactor.suspicious(text) else text
    return hashlib.sha256(f"{speaker}:{clean}".encode("utf-8", "replace")).hexdigest()
