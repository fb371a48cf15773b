"""A reflection with a model: group by what was asked, find what recurs, propose, and judge what is feasible.

The model sorts and words; what counts is counted here. Support is that of sessions which really called the tools, in
distinct tasks; turns saved are measured; names, tools and references that are not in the recording end the matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from instar.engine.compiler.effects import CODING_AGENT_READS, CODING_AGENT_WRITES
from instar.engine.compiler.identity import identified
from instar.engine.compiler.lessons import task_of
from instar.engine.compiler.propose import spread
from instar.engine.compiler.requests import request_of
from instar.engine.documents import Abstention, Catalogue, Memory, Proposal, ProposalAction, Window
from instar.engine.errors import Deferred
from instar.engine.llm.asker import Asker
from instar.engine.llm.copying import answers_of
from instar.engine.llm.errors import ModelError
from instar.engine.llm.excerpts import content_of, excerpt
from instar.engine.llm.instructions import DIRECTING, REPEATED, SUSPECTED, attempts_in, speaks_to_agents
from instar.engine.llm.shapes import Feasible, Found, Group, Grouped, Suggested
from instar.engine.llm.wording import Words, fit
from instar.engine.plan import Support
from instar.engine.session import Message, Session, Speaker, ToolCall
from instar.memstore.tokens import count_tokens
from instar.sandbox.reach import PAGES, READS
from instar.skills.manifest import NAME_REGEX

MIN_TASKS = 3
"""Distinct tasks without which nothing is proposed."""
MAX_GROUPS = 8
"""Groups of one project that are looked into, the largest first."""
SAMPLES = 6
REQUEST = 400
"""Characters of a request that are shown."""
EVIDENCE = 40
LEAST_SHOWN = 120
"""Tokens of a session below which showing it says nothing."""
FETCHED = frozenset({PAGES, READS})
HOSTED = CODING_AGENT_READS | CODING_AGENT_WRITES


@dataclass(frozen=True, slots=True)
class ModelReflection:
    """What the model's part of a reflection came to."""

    proposals: list[Proposal] = field(default_factory=list)
    abstentions: list[Abstention] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Procedure:
    what: str
    steps: Sequence[str]
    tools: Sequence[str]
    sessions: Sequence[Session]

    @property
    def tasks(self) -> int:
        return len({task_of(session) for session in self.sessions})

    @property
    def calls(self) -> list[tuple[Session, ToolCall]]:
        return [(s, call) for s in self.sessions for call, _ in s.exchanges() if call.tool in self.tools]

    @property
    def turns(self) -> float:
        """Assistant turns that one use replaces, less one: the median of the sessions; 1 where no tool is called.

        A page or a file that was fetched was read and worked on by the agent itself, which is one turn more.
        """
        if not self.tools:
            return 1.0
        counts = sorted(len({call.turn for s, call in self.calls if s is session}) for session in self.sessions)
        own_work = 1 if FETCHED & set(self.tools) else 0
        return float(max(counts[len(counts) // 2] - 1 + own_work, 0))


def suggest(asker: Asker, window: Window, catalogue: Catalogue, *, limit: int) -> ModelReflection:
    """At most `limit` proposals from the sessions of a window, the most turns saved first.

    A group that the model could not be asked about is an abstention with the reason; where a budget is spent, so is
    everything after it.
    """
    found = ModelReflection()
    projects: dict[str, list[Session]] = {}
    for session in sorted(window.sessions, key=lambda session: session.page_id):
        projects.setdefault(session.project, []).append(session)
    for project, sessions in sorted(projects.items()):
        if len({task_of(session) for session in sessions}) < MIN_TASKS:
            continue
        try:
            groups = _groups(asker, project, sessions, found)
            for group, members in groups:
                _look(asker, group, members, (window, catalogue), found)
        except ModelError as error:
            found.abstentions.append(Abstention(what=f"{project or 'no project'}, what recurs", reason=str(error)))
            if isinstance(error, Deferred) and error.stops:
                break
    ranked = sorted(found.proposals, key=lambda proposal: (-proposal.expected_turns_saved, proposal.id))
    beyond = [
        Abstention(what=proposal.title, reason=f"{limit} better ones are proposed") for proposal in ranked[limit:]
    ]
    return ModelReflection(ranked[:limit], [*found.abstentions, *beyond])


def _groups(
    asker: Asker, project: str, sessions: Sequence[Session], found: ModelReflection
) -> list[tuple[Group, list[Session]]]:
    """The groups of one project with enough tasks, the largest first."""
    room = asker.room("reflect", "model_group.md.j2")
    lines: list[str] = []
    used = 0
    for number, session in enumerate(sessions, start=1):
        tools = list(dict.fromkeys(call.tool for call, _ in session.exchanges()))
        line = f'[{number}] "{_request(session)}" ({", ".join(tools[:12]) or "no tool"})'
        used += count_tokens(line) + 1
        if used > room:
            left = len(sessions) - len(lines)
            found.abstentions.append(
                Abstention(
                    what=f"{project or 'no project'}, {left} sessions", reason="more than a model reads at once"
                )
            )
            break
        lines.append(line)
    answer = asker.ask(
        "reflect", "model_group.md.j2", Grouped, document=f"window of {project}", minimum=MIN_TASKS,
        sessions="\n".join(lines),
    )  # fmt: skip
    taken: set[int] = set()
    groups: list[tuple[Group, list[Session]]] = []
    for group in answer.groups:
        numbers = [n for n in dict.fromkeys(group.sessions) if 1 <= n <= len(lines) and n not in taken]
        taken.update(numbers)
        members = [sessions[number - 1] for number in numbers]
        if len({task_of(session) for session in members}) >= MIN_TASKS:
            groups.append((group, members))
    groups.sort(key=lambda item: -len(item[1]))
    return groups[:MAX_GROUPS]


def _look(
    asker: Asker, group: Group, members: Sequence[Session], known: tuple[Window, Catalogue], found: ModelReflection
) -> None:
    """Follow one group to a proposal or to the reason why there is none."""
    what = " ".join(group.what.split())[:80]
    try:
        procedure = _procedure(asker, what, members)
        if isinstance(procedure, str):
            found.abstentions.append(Abstention(what=what, reason=procedure))
            return
        proposal = _proposal(asker, procedure, *known)
        if isinstance(proposal, str):
            found.abstentions.append(Abstention(what=what, reason=proposal))
            return
        found.proposals.append(proposal)
    except ModelError as error:
        if isinstance(error, Deferred) and error.stops:
            raise
        found.abstentions.append(Abstention(what=what, reason=str(error)))


def _procedure(asker: Asker, what: str, members: Sequence[Session]) -> _Procedure | str:
    """What a group shares, as far as the recording bears it out, or why it shares nothing."""
    prompt = "model_pattern.md.j2"
    room = asker.room("reflect", prompt)
    members = _of_many_tasks(members, max(room // LEAST_SHOWN, MIN_TASKS))
    each = room // len(members)
    shown = "\n\n".join(f"session [{n}]\n{excerpt(s, each).text}" for n, s in enumerate(members, start=1))
    answer = asker.ask(
        "reflect", prompt, Found, document=f"group {what}", what=what, minimum=MIN_TASKS, sessions=shown
    )
    if not answer.recurs:
        return "a model found no common procedure in it"
    tools = list(dict.fromkeys(answer.tools))
    hosted = sorted(set(tools) & HOSTED)
    if hosted:
        return f"{', '.join(hosted)} belong to the agent's host; a skill cannot be given them"
    numbers = [number for number in dict.fromkeys(answer.sessions) if 1 <= number <= len(members)]
    following = [
        session
        for session in (members[number - 1] for number in numbers)
        if set(tools) <= {call.tool for call, result in session.exchanges() if result is not None}
    ]
    procedure = _Procedure(what, answer.steps, tools, following)
    if procedure.tasks < MIN_TASKS:
        return f"only {procedure.tasks} tasks really called {', '.join(tools) or 'nothing'}; {MIN_TASKS} are needed"
    if procedure.turns <= 0:
        return "one use would replace one turn, and save none"
    return procedure


def _of_many_tasks(sessions: Sequence[Session], most: int) -> list[Session]:
    """As many sessions as a model can read at once: one of every task before a second one of any."""
    before: Counter[tuple[str, str]] = Counter()
    ranked: list[tuple[int, int]] = []
    for number, session in enumerate(sessions):
        ranked.append((before[task_of(session)], number))
        before[task_of(session)] += 1
    return [sessions[number] for number in sorted(number for _, number in sorted(ranked)[:most])]


def _proposal(asker: Asker, procedure: _Procedure, window: Window, catalogue: Catalogue) -> Proposal | str:
    support = Support(
        sessions=len(procedure.sessions),
        tasks=procedure.tasks,
        calls=len(procedure.calls) or len(procedure.sessions),
    )
    steps = "\n".join(f"- {step}" for step in procedure.steps)
    answer = asker.ask(
        "reflect",
        "model_propose.md.j2",
        Suggested,
        document=f"group {procedure.what}",
        support=f"{support.sessions} sessions of {support.tasks} tasks",
        procedure=f"{procedure.what}\n{steps}\ntools: {', '.join(procedure.tools) or 'none'}",
        requests="\n".join(f"- {_request(session)}" for session in procedure.sessions[:SAMPLES]),
        catalogue="\n".join(_entries(catalogue)) or "none",
        decisions="\n".join(window.decisions[-30:]) or "none",
    )
    if not answer.propose:
        return "a model advised against it"
    own = {entry.name: entry for entry in catalogue.entries if entry.own}
    taken = {entry.name for entry in catalogue.entries}
    name = answer.existing if answer.existing in own else answer.skill
    if not NAME_REGEX.fullmatch(name) or len(name) > 64:
        return "the name that a model chose is none"
    if name in taken and name not in own:
        return f"exists as {name} in the agent's host"
    known = words_of(procedure.sessions)
    words, _ = fit([answer.title, answer.summary], known, asker.language, most=2)
    if len(words) < 2:
        return "what a model wrote about it is not about what the tasks share"
    verdict = asker.ask(
        "judge", "model_judge.md.j2", Feasible, document=f"proposal {name}",
        proposal=f"{words[0]}\n{words[1]}\n{steps}\ntools: {', '.join(procedure.tools) or 'none'}",
    )  # fmt: skip
    if not verdict.feasible:
        return "a model judged that no program can do it"
    against, _ = fit(answer.against, known, asker.language, most=4)
    pages = {session.page_id for session in procedure.sessions}
    proposal = Proposal(
        id="",
        action=ProposalAction.IMPROVE if name in own else ProposalAction.NEW,
        skill=name,
        title=words[0],
        summary=words[1],
        support=support,
        evidence=spread(list(_evidence(procedure)), EVIDENCE),
        expected_turns_saved=round(min(answer.turns_saved_per_use, procedure.turns) * support.sessions, 2),
        against=[*against, "A model found it: what it does was not measured before it was written.",
                 *warnings(procedure.sessions, window.memories)],
        plan=None,
        project=procedure.sessions[0].project,
        memories=sorted(memory.id for memory in window.memories if memory.session in pages)[:EVIDENCE],
        made_by=asker.made_by("reflect", "model_propose.md.j2"),
    )  # fmt: skip
    return identified(proposal, "proposal")


def warnings(sessions: Sequence[Session], memories: Sequence[Memory]) -> list[str]:
    """What a reviewer must know about text in these sessions that tries to direct whoever reads it.

    It is recognised here, or was reported when a session was read.
    """
    own = {session.page_id for session in sessions}
    told = [memory for memory in memories if memory.session in own]
    recognised = [page for memory in told if DIRECTING in memory.tags for page in memory.evidence]
    pages = list(dict.fromkeys([*(attempt.page for attempt in attempts_in(sessions)), *recognised]))
    repeated = list(dict.fromkeys(page for memory in told if REPEATED in memory.tags for page in memory.evidence))
    suspected = list(dict.fromkeys(page for memory in told if SUSPECTED in memory.tags for page in memory.evidence))
    said = []
    # The words themselves are not repeated: a requirement travels with the skill, and an agent may read it.
    if pages:
        said.append(
            f"{len(pages)} steps of these sessions hold text that tries to direct an agent; it was not followed. "
            f"`instar pages show` shows it: {', '.join(pages[:3])}."
        )
    if repeated:
        said.append(
            f"A model gave text of {len(repeated)} steps of these sessions back as its own word; it was not kept. "
            f"Look for orders in it: {', '.join(repeated[:3])}."
        )
    if suspected:
        said.append(
            f"A model took text of {len(suspected)} steps for an attempt to direct an agent; nothing confirms it: "
            f"{', '.join(suspected[:3])}."
        )
    return said


def _entries(catalogue: Catalogue) -> Iterator[str]:
    for entry in catalogue.entries[:60]:
        yield f"{entry.name} ({'ours' if entry.own else 'of the host'}): {entry.description[:160]}"


def _evidence(procedure: _Procedure) -> Iterator[str]:
    for session in procedure.sessions:
        yield session.evidence_id(session.steps[0].index)
        for call, result in session.exchanges():
            if call.tool in procedure.tools and result is not None:
                yield session.evidence_id(call.index)
                yield session.evidence_id(result.index)


def words_of(sessions: Sequence[Session]) -> Words:
    """The words that may be used about these sessions, and those that one task alone holds."""
    answers = (text for session in sessions for text in answers_of(session.steps))
    return Words.of(texts_of(sessions), _everything(sessions), answers)


def _everything(sessions: Sequence[Session]) -> Iterator[tuple[str, str]]:
    """What was recorded, by task; all text that directs agents counts as that of one, however often it was pasted."""
    for session in sessions:
        task = "\0".join(task_of(session))
        for step in session.steps:
            if not isinstance(step, Message) or step.speaker is not Speaker.SYSTEM:
                text = content_of(step)
                yield "directing" if speaks_to_agents(text) else task, text


def texts_of(sessions: Sequence[Session]) -> Iterator[tuple[str, str]]:
    """Requests and the names of tools and arguments, by task: the words that may be used about them."""
    for session in sessions:
        task = "\0".join(task_of(session))
        request = request_of(session)
        if not speaks_to_agents(request):
            yield task, request
        for call, _ in session.exchanges():
            yield task, f"{call.tool} {' '.join(call.arguments)}"


def _request(session: Session) -> str:
    return " ".join(request_of(session)[: 4 * REQUEST].split())[:REQUEST]
