"""The recorder: it takes down what an agent does, and never gets into its way.

Every event is on disk in the spool before anything else happens. Before each decision of the model the events go to
the harness; where the store cannot be written they stay in the spool, and `instar doctor` says so.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from instar.adapters.capture.answers import Answers
from instar.adapters.capture.context import Brief, compose
from instar.adapters.capture.link import Link, said_key
from instar.adapters.capture.plain import to_arguments, to_json, to_value
from instar.core import spool
from instar.core.live import Event, Kind, read_event
from instar.core.settings import Settings, load_settings

BUDGET = 2_000
FEED_AFTER = 64
"""Events that are held back at most; an agent that never asks for a context is recorded all the same."""

CLEAR_AT = 1_000_000
"""Bytes of stored events at which a session's file in the spool is emptied."""
LAG = 24
"""Events that an adapter may hold back at a decision: they are in the part of the conversation that it shows."""
HELD = 10_000
"""Events that are kept in memory while the store is away."""
_SYNCED_LATER = {Kind.CALL, Kind.MESSAGE}
"""What comes before a result is on the disk with it: the same file is synced then. A killed agent loses neither."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A call that was taken down. With `answered` an earlier process made this very call: `value` is its result."""

    call_id: str
    answered: bool = False
    value: JsonValue = None


class Recorder:
    """One session of one agent. Safe for several threads; nothing in here raises because of the store or the disk."""

    def __init__(
        self,
        settings: Settings,
        *,
        agent: str,
        session: str,
        project: str = "",
        task: str = "",
        budget: int = BUDGET,
        brief: Brief | None = None,
        prime: bool | None = None,
        topics: Sequence[str] = (),
    ) -> None:
        """`prime` overrides the setting of that name: whether the context holds what other sessions know, unasked.
        `topics` are what tasks of this kind always ask about."""
        if prime is not None:
            settings = settings.model_copy(update={"prime": prime})
        self.agent, self.session, self.project, self.task = agent, session, project, task
        self.settings, self.budget = settings, budget
        self._folder = spool.folder_of(str(settings.home))
        self._lock = threading.RLock()
        self._link = Link(
            settings,
            agent=agent,
            session=session,
            project=project,
            folder=self._folder,
            task=task,
            topics=tuple(topics),
        )
        self._brief = brief if brief is not None else Brief()
        self._journal: spool.SpoolFile | None = None
        self._pending: list[Event] = []
        self._answers = Answers()
        self._running: dict[str, str] = {}
        """Tools of the calls that have no result yet, by call id."""
        self._turn, self._decides, self._asked = 0, False, task
        self._rules: list[str] = []
        self._tools: set[str] = set()
        self._words: list[Event] = []
        self._said: Counter[str] = Counter()
        self._process, self._origin, self._begun = 0, "interactive", False
        self.lost = 0
        """Events that neither the spool nor the store could take."""

    # The session

    def start(self, *, bootstrap: str = "", constraints: Sequence[str] = (), origin: str = "interactive") -> None:
        """Begin or resume. What an earlier process of this session left in the spool is recorded first."""
        with self._lock:
            self._open_journal()
            self._link.connect(self.budget)
            self._answers = Answers(self._link.finished())
            self._said = Counter(self._link.said())
            self._origin = origin
            self._note(Kind.START, origin=origin, task=self.task)
            for kind, texts in (("bootstrap", [bootstrap] if bootstrap else []), ("constraint", constraints)):
                for text in texts:
                    self._rules.append(text)
                    self._note(Kind.STANDING, type=kind, text=text)
            self._feed()

    def close(self, outcome: str = "", note: str = "") -> None:
        """Record what is left and end; the session is then learned from. `outcome` is "success" or "failure"."""
        with self._lock:
            if self._journal is None and not self._link.connected:
                return
            for call_id in list(self._running):
                self.result(call_id, error="no result before the session ended")
            if outcome:
                self._note(Kind.OUTCOME, status=outcome, basis="agent", note=note)
            tools: list[JsonValue] = [*sorted(self._tools)]
            self._note(Kind.END, task=self.task, origin=self._origin, tools=tools)
            told = [*self._words, self._pending[-1]]
            stored = self._feed(final=True)
            if stored:
                self._link.conclude(told)
            self._link.close()
            self._close_journal(stored=stored)

    # What happens

    def call(
        self, tool: str, arguments: object, *, call_id: str = "", at: float | None = None, replay: bool = True
    ) -> Noted:
        """A tool is about to be called. When this returns it survives the end of this process, unless the disk fails.

        `at` is when it was, where that is known better; without `replay` the call was made in any case.
        """
        with self._lock:
            given = self._link.clean(to_arguments(arguments))
            answer = self._answers.take(tool, given, call_id) if replay else None
            if answer is not None:
                return Noted(call_id or answer.call_id, answered=True, value=answer.value)
            if not self._running and not self._decides:
                self._turn += 1
            unique = (
                call_id if call_id and call_id not in self._running else f"{call_id or tool}#{os.urandom(6).hex()}"
            )
            self._note(Kind.CALL, at=at, tool=tool, arguments=given, call=unique, turn=self._turn)
            self._running[unique] = tool
            return Noted(unique)

    def result(self, call_id: str, value: object = None, *, error: str = "", at: float | None = None) -> None:
        """A tool has answered, or failed with `error`. A call that was not taken down is ignored."""
        with self._lock:
            if self._running.pop(call_id, None) is None:
                return
            self._note(Kind.RESULT, at=at, call=call_id, value=to_value(value), error=error)
            if len(self._pending) >= FEED_AFTER or self._journal is None:
                self._feed()

    def running(self, call_id: str) -> bool:
        """Whether a call was taken down and has no result yet."""
        return call_id in self._running

    def message(self, text: str, *, speaker: str = "assistant") -> None:
        """Someone said something: "user", "assistant" or "system"."""
        if text.strip():
            with self._lock:
                self._said[said_key(speaker, text)] += 1
                self._asked = text if speaker == "user" else self._asked
                self._note(Kind.MESSAGE, speaker=speaker, text=text)

    def heard(self, conversation: Sequence[tuple[str, str]]) -> None:
        """The conversation as a framework holds it, by speaker and text: what is not recorded of it yet, is."""
        with self._lock:
            counted: Counter[str] = Counter()
            for speaker, text in conversation:
                name = said_key(speaker, text)
                counted[name] += 1
                if counted[name] > self._said[name]:
                    self.message(text, speaker=speaker)

    def plan(self, fields: Mapping[str, object]) -> None:
        """What the agent is up to: goal, current step, dependencies. Fields that are not named stay."""
        with self._lock:
            self._note(Kind.PLAN, fields=to_json(dict(fields)))

    def constraint(self, text: str) -> None:
        """A rule that holds from now on, also after every compaction."""
        with self._lock:
            self._rules.append(text)
            self._note(Kind.STANDING, type="constraint", text=text)

    def offered(self, tools: Iterable[str]) -> None:
        """The tools that the model may call; a call of another one tells of a tool that is missing."""
        with self._lock:
            self._tools.update(tools)

    def feedback(self, *, good: bool, note: str = "", by: str = "") -> None:
        """What a person thinks of the session; a bad word is reflected on."""
        with self._lock:
            self._note(Kind.FEEDBACK, good=good, note=note, by=by)
            self._words.append(self._pending[-1])

    def compacted(self) -> None:
        """The conversation is about to be shortened: everything is committed first."""
        with self._lock:
            self._note(Kind.COMPACT)
            self._feed()

    def delivered(self, call_ids: Iterable[str]) -> None:
        """The framework still has the results of these calls itself; they are not answered from the record."""
        with self._lock:
            self._answers.discard(call_ids)

    # Before a decision

    def decision(self) -> None:
        """The model is about to decide: the calls that follow belong together."""
        with self._lock:
            self._decides = True
            self._turn += 1

    def context(self, query: str = "", *, lag: int = 0) -> str:
        """What the model should see before it decides, within the budget: rules, plan, record, lessons, skills.

        With a `lag` so many of the newest events may be missing: for who shows the newest exchanges as they were.
        """
        with self._lock:
            self.decision()
            if len(self._pending) > lag or not self._begun:
                self._feed()
            self._begun = True
            held = self._link.assemble(self.budget, self._brief, query or self._asked)
            return compose(held, self._rules)

    @property
    def faults(self) -> Mapping[str, int]:
        """Faults of this process by kind; empty is as it should be."""
        return self._link.faults

    @property
    def degraded(self) -> str:
        """Why the store is not in use at the moment; "" when it is."""
        return self._link.problem

    # Inside

    def _note(self, kind: Kind, *, at: float | None = None, **fields: JsonValue) -> None:
        if self._process and self._process != os.getpid():
            self._after_fork()
        stamp = spool.stamp(self.agent, self.session, self.project, kind.value)
        line = self._link.redacted({**stamp, **({} if at is None else {"at": at}), **fields})
        event = read_event(line)
        self._pending.append(event)
        if self._journal is None:
            self._forget_oldest()
            return
        try:
            self._journal.append_text(f"{line}\n", sync=kind not in _SYNCED_LATER)
        except OSError as error:
            self._link.alarm(f"the spool cannot be written: {error.strerror or error}")
            self._journal.close()
            self._journal = None

    def _feed(self, *, final: bool = False) -> bool:
        """Give the store what it does not have yet; True when it has all of it."""
        left = self._link.feed(self._pending, final=final)
        if left is None:
            self._set_aside()
            return False
        self._pending = list(left)
        # Feeding twice records once, so that what is stored may stay in the file for a while.
        if not left and self._journal is not None and (final or self._journal.size > CLEAR_AT):
            self._journal.clear()
        return not left

    def _set_aside(self) -> None:
        """The store has been away for long: leave the events to the spool alone, until it is back."""
        if len(self._pending) >= HELD and self._journal is not None:
            self._pending = []
            self._journal.close()
            self._open_journal()

    def _forget_oldest(self) -> None:
        # Without a disk and without a store nothing can be kept for ever.
        if len(self._pending) > HELD:
            self.lost += len(self._pending) - HELD
            del self._pending[: len(self._pending) - HELD]

    def _open_journal(self) -> None:
        self._process = os.getpid()
        name = f"{spool.file_name(self.agent, self.session)}-{os.getpid()}-{time.time_ns():x}"
        try:
            self._journal = spool.SpoolFile(self._folder, name)
        except OSError as error:
            self._journal = None
            self._link.alarm(f"the spool cannot be written: {error.strerror or error}")

    def _close_journal(self, *, stored: bool) -> None:
        if self._journal is not None:
            if stored:
                self._journal.remove()
            self._journal.close()
            self._journal = None

    def _after_fork(self) -> None:
        """Files and connections belong to the parent; the child records into its own."""
        self._pending = []
        self._running = {}
        self._link.abandon()
        self._open_journal()
        self._link.connect(self.budget)


@contextmanager
def capture(
    agent: str,
    *,
    session: str = "",
    project: str = "",
    task: str = "",
    bootstrap: str = "",
    constraints: Sequence[str] = (),
    budget: int = BUDGET,
    prime: bool | None = None,
    topics: Sequence[str] = (),
    home: Path | str | None = None,
) -> Iterator[Recorder]:
    """Record a session: it succeeds when the block ends, and fails when an exception leaves it.

    With `prime` (or that setting) its contexts also hold what other sessions know about the task and the last steps,
    and about `topics`, which tasks of this kind always ask about.

    The same `session` resumes where an earlier process stopped; without one a new name is made.
    """
    settings = load_settings(os.environ, {"home": home} if home is not None else {})
    name = session or f"{time.strftime('%Y%m%dT%H%M%S')}-{os.urandom(3).hex()}"
    recorder = Recorder(
        settings,
        agent=agent,
        session=name,
        project=project,
        task=task,
        budget=budget,
        prime=prime,
        topics=topics,
    )
    recorder.start(bootstrap=bootstrap, constraints=constraints)
    try:
        yield recorder
    except BaseException as error:
        recorder.close("failure", f"{type(error).__name__}: {error}"[:500])
        raise
    recorder.close("success")
