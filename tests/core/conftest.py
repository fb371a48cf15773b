"""A home in which the chain has run once on the sample sessions; each test gets its own copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from instar.core.build import Built, build
from instar.core.ingest import ingest, ingest_sessions
from instar.core.learn import distill, reflect, specify
from instar.core.review_pages import DecisionKind
from instar.core.reviews import decide
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.engine.documents import Prd, Proposal, ProposalAction
from instar.engine.llm.config import ModelSettings
from instar.engine.llm.played import Answers, playing
from instar.engine.llm.testing import ModelServer, serving
from instar.engine.plan import Support
from instar.engine.session import Session
from instar.memstore import PageDraft, PageType, Provenance
from instar.sandbox.report import Verdict

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "examples" / "order_desk" / "sessions"
TOOLS = ROOT / "examples" / "order_desk" / "tools.toml"


@pytest.fixture(scope="session")
def evolved_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Built]]:
    home = tmp_path_factory.mktemp("evolved") / "home"
    with runtime(Settings(home=home)) as rt:
        ingest(rt, [SAMPLES])
        distill(rt)
        reflection = reflect(rt)
        drafts = [build(rt, specify(rt, proposal.id).id) for proposal in reflection.proposals]
    return home, drafts


@pytest.fixture
def drafts(evolved_once: tuple[Path, list[Built]]) -> list[Built]:
    return evolved_once[1]


@pytest.fixture
def settings(evolved_once: tuple[Path, list[Built]], tmp_path: Path) -> Settings:
    shutil.copytree(evolved_once[0], tmp_path / "home")
    return Settings(home=tmp_path / "home", tools=TOOLS)


@pytest.fixture
def rt(settings: Settings) -> Iterator[Runtime]:
    with runtime(settings) as opened:
        yield opened


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Runtime]:
    with runtime(Settings(home=tmp_path / "empty")) as opened:
        yield opened


@pytest.fixture
def write_sessions(tmp_path: Path) -> Callable[..., Path]:
    def write(*sessions: dict[str, object] | str, name: str = "log.jsonl") -> Path:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in sessions]
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def propose_to_retire() -> Callable[[Runtime, str], str]:
    """Stores a proposal to retire a skill, as a reflection leaves it, and returns its page."""

    def propose(rt: Runtime, skill: str) -> str:
        evidence = next(page.id for page in rt.store.find(rt.principal, scope="local", kind="step"))
        proposal = Proposal(
            id=f"proposal-retire-{skill}",
            action=ProposalAction.RETIRE,
            skill=skill,
            title=f"Retire {skill}",
            summary="In 40 sessions it was not used once.",
            support=Support(sessions=0, tasks=0, calls=0),
            evidence=[evidence],
            expected_turns_saved=0,
            against=[],
        )
        page = PageDraft(
            id=proposal.id,
            kind="proposal",
            type=PageType.EVIDENCE,
            content=proposal.model_dump(mode="json"),
            provenance=Provenance(source="engine:proposal", references=(evidence,)),
        )
        with rt.store.writeback(rt.principal, scope="local") as batch:
            return batch.append(page)

    return propose


@dataclass(frozen=True, slots=True)
class Job:
    """A home whose engine is a model that knows one job."""

    rt: Runtime
    server: ModelServer

    def built(self, sessions: list[Session]) -> tuple[Prd, Built]:
        """From sessions to the draft of the one skill that is proposed."""
        ingest_sessions(self.rt, sessions)
        distill(self.rt)
        (proposal,) = reflect(self.rt).proposals
        prd = specify(self.rt, proposal.id)
        return prd, build(self.rt, prd.id)

    def failures(self, one: Built) -> dict[str, object]:
        """The gates that did not pass, with their first findings."""
        return {r.gate: (r.summary, r.findings[:3]) for r in one.report.results if r.verdict is not Verdict.PASS}

    def file_of(self, one: Built, path: str) -> str:
        """A file of the draft."""
        page = self.rt.store.get(self.rt.principal, one.draft)
        assert page is not None
        files = page.content["files"]
        assert isinstance(files, dict)
        return str(files[path])

    def approve(self, one: Built) -> None:
        """As a person would."""
        decide(self.rt, one.review, DecisionKind.APPROVE, by="ada")

    def with_tools(self, text: str) -> Runtime:
        """The same home with tools of its own."""
        tools = self.rt.settings.home / "tools.toml"
        tools.write_text(text)
        return replace(self.rt, settings=self.rt.settings.model_copy(update={"tools": tools}))


@pytest.fixture
def modelled(tmp_path: Path) -> Callable[..., AbstractContextManager[Job]]:
    @contextmanager
    def opened(answers: Answers, **given: object) -> Iterator[Job]:
        with serving(playing(answers)) as server:
            models = ModelSettings(base_url=server.url, timeout_seconds=30)
            chosen = {"engine": "model", "home": tmp_path / "home", "models": models, "host_skills": ()} | given
            with runtime(Settings.model_validate(chosen)) as rt:
                yield Job(rt, server)

    return opened
