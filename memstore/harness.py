"""The harness: it stands between an agent and its memory, so that keeping the memory is not left to the model.

It records what happens, keeps the working set, assembles the context of every turn, counts faults, and commits what
is dirty before anything can destroy the only copy of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from instar.memstore.errors import InvalidRequest
from instar.memstore.faults import FaultKind
from instar.memstore.foresight import Foresight, Recollections
from instar.memstore.ladder import item_of
from instar.memstore.ledger import Ledger
from instar.memstore.pages import Level, Page, PageDraft, PageType, State, canonical, digest_of
from instar.memstore.scopes import Principal
from instar.memstore.store import Store
from instar.memstore.templates import Templates
from instar.memstore.trace import TracedWorkingSet
from instar.memstore.turns import Context, SessionStart, ToolStart
from instar.memstore.writes import Change, Receipt

_STANDING = (PageType.BOOTSTRAP, PageType.CONSTRAINT, PageType.PLAN, PageType.PREFERENCE)
_PLACE = {kind: place for place, kind in enumerate(_STANDING)}
CHECKPOINT = "checkpoint"
TOOL_CALL = "tool-call"


class Harness:
    """One session of one agent. Not for several threads at once; parallel tool calls are matched by their ids."""

    def __init__(
        self,
        store: Store,
        by: Principal,
        *,
        scope: str,
        session: str,
        budget: int,
        templates: Templates | None = None,
        foresight: Foresight | None = None,
    ) -> None:
        """With `foresight` a context also holds pages of other sessions that the session may need."""
        self._store, self._by, self._scope, self._session = store, by, scope, session
        self._templates = templates or Templates()
        self.budget = budget
        self.run = f"run-{secrets.token_hex(8)}"
        """The name under which the decision trace of this process is stored."""
        self.ledger = Ledger(scope, session)
        self._working = TracedWorkingSet(scope, session)
        self._recalled = None if foresight is None else Recollections(foresight, self._working)
        self._pages: dict[str, Page] = {}
        self._calls: dict[str, tuple[str, str]] = {}
        """Open calls: page and signature by call id."""
        self._done: dict[str, str] = {}
        """Page of the last successful call of each signature."""
        self._count = 0
        self._open = False

    # The session

    def session_start(self) -> SessionStart:
        """Begin or resume: finish what an earlier process staged, and load the pages that concern the session.

        Raises:
            ScopeDenied: no grant covers the scope.
            StoreUnavailable: nothing was started.
        """
        self._by.require(self._scope)
        flushed = self._store.flush(self._by, scope=self._scope, session=self._session)
        self._open = True
        own = list(self._store.find(self._by, scope=self._scope, session=self._session))
        self._count = self._store.count(self._by, scope=self._scope, session=self._session, hidden=True, expired=True)
        for scope in self._scopes():
            for kind in _STANDING:
                for page in self._store.find(self._by, scope=scope, type=kind, exact=True):
                    self._admit(page)
        for page in own:
            self._admit(page)
        if flushed.rejections:
            self.ledger.note(
                FaultKind.FLUSH_MISS, "staged entries became unsound", [r.page_id for r in flushed.rejections]
            )
        return SessionStart(len(self._pages), bool(own), flushed.receipt.committed, flushed.rejections)

    def close(self) -> None:
        """Commit what is dirty, and end. Closing twice is fine."""
        if self._open:
            self._flush()
            self._open = False
            if self._recalled is not None:
                self._recalled.close()

    # Recording

    def remember(self, draft: PageDraft) -> str:
        """Stage a page of this session: a constraint, a plan, a preference, a note.

        Raises:
            Rejected: it cannot be committed.
        """
        self._require_open()
        page_id = draft.id or self._next_id()
        self._stage(replace(draft, id=page_id, session=draft.session or self._session))
        return page_id

    def record(self, drafts: Sequence[PageDraft]) -> Receipt:
        """Commit pages of this session at once, without staging: for a caller that kept them durably until now.

        A finished tool call that repeats an earlier one counts as with `tool_start`. Recording the same pages again
        changes nothing.

        Raises:
            Rejected: one of them cannot be committed; none was.
        """
        self._require_open()
        with self._store.writeback(self._by, scope=self._scope) as batch:
            for draft in drafts:
                batch.append(replace(draft, session=draft.session or self._session))
        pages = self._store.get_many(self._by, list(batch.receipt.committed))
        for page in pages.values():
            tool, arguments = page.content.get("tool"), page.content.get("arguments")
            if page.kind == TOOL_CALL and isinstance(tool, str) and isinstance(arguments, dict):
                earlier = self._done.get(signature_of(tool, arguments))
                if earlier is not None and page.id not in self._pages:
                    # What no context had to hold yet is still in the conversation as it was.
                    if earlier in self.ledger.new:
                        self.ledger.alerts += 1
                    else:
                        self.ledger.repeat(tool, earlier)
            self.ledger.new.add(page.id)
            self._admit(page)
        self._count += len(drafts)
        if faults := self.ledger.take():
            self._store.record(self._by, faults)
        return batch.receipt

    def revise(self, page_id: str, fields: Mapping[str, JsonValue]) -> None:
        """Stage new values for some fields of a page in the working set, merged with what others changed.

        Raises:
            InvalidRequest: the page is not in the working set.
            Rejected: it cannot be committed.
        """
        self._require_open()
        page = self._page(page_id)
        with self._store.staging(self._by, scope=self._scope, session=self._session) as batch:
            batch.merge(page_id, fields, read=page.version)
        self._admit_all(batch.preview)

    def tool_start(self, tool: str, arguments: Mapping[str, JsonValue], *, call_id: str) -> ToolStart:
        """Note that a tool is called, durably, before it is.

        A call that repeats an earlier successful one is an alert while that one's result is in the context, and a
        `duplicate-tool` fault when it is not.

        Raises:
            InvalidRequest: this call id is open already.
            Rejected: the call cannot be recorded.
        """
        self._require_open()
        if call_id in self._calls:
            raise InvalidRequest(f"the call {call_id[:80]!r} has been started and has no result yet")
        signature = signature_of(tool, arguments)
        page_id = self._next_id()
        draft = PageDraft(
            kind=TOOL_CALL,
            type=PageType.EVIDENCE,
            content={"tool": tool, "arguments": dict(arguments), "call": call_id},
            id=page_id,
            session=self._session,
            state=State.PENDING,
        )
        self._stage(draft)
        self._calls[call_id] = (page_id, signature)
        earlier = self._done.get(signature)
        return ToolStart(page_id, earlier, earlier is not None and self.ledger.repeat(tool, earlier))

    def tool_result(self, call_id: str, value: JsonValue, *, error: str = "") -> str:
        """Record what a call answered, durably; returns the page.

        A result that its template does not hold for valid is kept as `intermediate`, with the reason.

        Raises:
            InvalidRequest: no call of this id is open.
            Rejected: the result cannot be recorded.
        """
        self._require_open()
        if call_id not in self._calls:
            raise InvalidRequest(f"no call {call_id[:80]!r} is open")
        page_id, signature = self._calls[call_id]
        template = self._templates.of(str(self._pages[page_id].content["tool"]))
        problem = "" if error else template.problem(value)
        state = State.ERROR if error else State.INTERMEDIATE if problem else State.SUCCESS
        fields: dict[str, JsonValue] = {"status": "error" if error else "ok", "value": value}
        fields |= {"error": error} if error else {}
        fields |= {"problem": problem} if problem else {}
        with self._store.staging(self._by, scope=self._scope, session=self._session) as batch:
            batch.merge(page_id, fields, read=self._pages[page_id].version, change=Change(state=state))
        self._admit_all(batch.preview)
        del self._calls[call_id]
        if state is State.SUCCESS:
            self._done[signature] = page_id
        return page_id

    def post_model(self, text: str, *, speaker: str = "assistant") -> str:
        """Record what was said, and commit the turn; returns the page."""
        self._require_open()
        page_id = self._next_id()
        content: dict[str, JsonValue] = {"speaker": speaker, "turn": self.ledger.turn, "span": page_id}
        draft = PageDraft(kind="message", type=PageType.CONVERSATION, content=content, text=text, id=page_id)
        self._stage(replace(draft, session=self._session))
        self._flush()
        return page_id

    def recalled(self, hits: int, status: str) -> None:
        """Note the answer of a recall that the agent was shown.

        An empty answer although the backend failed or access was denied is `silent-recall`.
        """
        if hits == 0 and status in ("denied", "backend-error"):
            self.ledger.note(FaultKind.SILENT_RECALL, f"an empty answer stood for {status}", [])

    # The context

    def assemble(self, demand: Mapping[str, Level] | None = None) -> Context:
        """The context of the next turn, within the budget. Writes nothing; reads nothing but memory, unless there is
        foresight.

        Raises:
            InvalidRequest: a demanded page is not in the working set.
        """
        self._require_open()
        demand = demand or {}
        recalled = self._recalled
        own = [page_id for page_id in demand if recalled is None or page_id not in recalled]
        for page_id in own:
            self._page(page_id)
        if recalled is not None:
            recalled.refresh(self.budget, self._pages, demand)
        before = len(self.ledger.noted)
        self.ledger.demand(own)
        selection = self._working.assemble(self.budget, demand)
        shown: Mapping[str, Level] = {}
        texts: list[str] = []
        if recalled is not None:
            shown, texts = recalled.shown(selection.levels)
            selection = recalled.without(selection)
        self.ledger.selected(selection, self._pages, self.budget)
        ordered = sorted(selection.levels, key=lambda page_id: _rank(self._pages[page_id]))
        lines = [self._pages[page_id].forms.at(selection.levels[page_id]) for page_id in ordered]
        if texts:
            standing = sum(self._pages[page_id].type in _PLACE for page_id in ordered)
            lines[standing:standing] = texts
        faults = tuple(self.ledger.noted[before:])
        return Context(self.ledger.turn, "\n".join(lines), selection.levels, selection.tokens, faults, shown)

    def compact(self) -> None:
        """Commit what is dirty; the next context is the first after a compaction."""
        self._require_open()
        self._flush()
        self.ledger.forget()

    def reset(self) -> None:
        """Commit what is dirty; the next context is the first of an empty conversation."""
        self.compact()

    # Going back

    def checkpoint(self, name: str = "") -> str:
        """Commit, and remember which version every page of the session has; returns the page that remembers it."""
        self._require_open()
        self._flush()
        versions: dict[str, JsonValue] = {
            page.id: page.version for page in self._store.find(self._by, scope=self._scope, session=self._session)
        }
        draft = PageDraft(
            kind=CHECKPOINT,
            type=PageType.EVIDENCE,
            content={"name": name, "turn": self.ledger.turn, "versions": versions},
            id=self._next_id(),
            session=self._session,
        )
        with self._store.writeback(self._by, scope=self._scope) as batch:
            return batch.append(draft)

    def rollback(self, checkpoint: str) -> Receipt:
        """Bring the session back to a checkpoint. Later pages are hidden, changed ones get their old content anew.

        Raises:
            InvalidRequest: there is no such checkpoint in this session.
        """
        self._require_open()
        page = self._store.get(self._by, checkpoint)
        if page is None or page.kind != CHECKPOINT or page.session != self._session:
            raise InvalidRequest(f"{checkpoint[:80]!r} is not a checkpoint of this session")
        self._flush()
        named = page.content["versions"]
        versions = {name: int(str(version)) for name, version in named.items()} if isinstance(named, dict) else {}
        receipt = self._store.rollback(
            self._by, scope=self._scope, session=self._session, versions={**versions, checkpoint: page.version}
        )
        for page_id in [page_id for page_id, kept in self._pages.items() if kept.session == self._session]:
            self._working.discard(page_id)
            del self._pages[page_id]
        self._calls.clear()
        self._done = {signature: done for signature, done in self._done.items() if done in versions}
        for kept in self._store.find(self._by, scope=self._scope, session=self._session):
            self._admit(kept)
        self.ledger.forget()
        return receipt

    # Inside

    def _scopes(self) -> list[str]:
        """This scope and those above it, as far as the grants reach."""
        parts = self._scope.split("/")
        paths = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        return [path for path in paths if self._by.may(path)]

    def _admit(self, page: Page) -> None:
        """Let a page compete for the context, and learn from it which calls are open or done."""
        if page.kind == CHECKPOINT or page.hidden:
            return
        known = self._pages.get(page.id)
        if known is not None and known.version == page.version:
            return
        self._pages[page.id] = page
        if self._recalled is not None:
            self._recalled.heard(page)
        self._working.add(item_of(page, self._scope))
        tool, arguments, call = (page.content.get(name) for name in ("tool", "arguments", "call"))
        if page.kind == TOOL_CALL and isinstance(tool, str) and isinstance(arguments, dict):
            signature = signature_of(tool, arguments)
            if page.state is State.SUCCESS:
                self._done[signature] = page.id
            elif page.state is State.PENDING and isinstance(call, str):
                self._calls[call] = (page.id, signature)

    def _admit_all(self, pages: Sequence[Page]) -> None:
        for page in pages:
            self._admit(page)

    def _stage(self, draft: PageDraft) -> None:
        with self._store.staging(self._by, scope=self._scope, session=self._session) as batch:
            batch.append(draft)
        self._admit_all(batch.preview)

    def _flush(self) -> None:
        flushed = self._store.flush(
            self._by, scope=self._scope, session=self._session, run=self.run, trace=self._working.take()
        )
        if flushed.rejections:
            pages = [rejection.page_id for rejection in flushed.rejections]
            self.ledger.note(FaultKind.FLUSH_MISS, "staged entries became unsound", pages)
        if faults := self.ledger.take():
            self._store.record(self._by, faults)

    def _page(self, page_id: str) -> Page:
        page = self._pages.get(page_id)
        if page is None:
            raise InvalidRequest(f"{page_id[:80]!r} is not in the working set of this session")
        return page

    def _next_id(self) -> str:
        self._count += 1
        return f"{self._session}.{self._count:05d}-{secrets.token_hex(3)}"

    def _require_open(self) -> None:
        if not self._open:
            raise InvalidRequest("the session is not open: call session_start first")


def signature_of(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """What makes two calls the same: the tool and its arguments, whatever the order of their names."""
    return digest_of(canonical({"tool": tool, "arguments": dict(arguments)}))


def _rank(page: Page) -> tuple[int, int, str]:
    """The place of a page in the text: what holds for the whole session first, then in the order of writing.

    Pages that are not committed yet come last, in the order of their ids.
    """
    return (_PLACE.get(page.type, len(_PLACE)), page.seq or 1 << 62, page.id)
