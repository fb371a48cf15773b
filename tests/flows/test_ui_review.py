"""Reviews in the Prefect UI, answered with a real browser. Screenshots are kept in `build/screens/`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from instar.core.build import build
from instar.core.learn import window
from instar.core.refusals import refusals
from instar.core.review_pages import Review, ReviewState, documents_of, proposal_of
from instar.core.reviews import get_review, list_reviews
from instar.core.revising import Revises, revision_of
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings, load_settings
from instar.core.skills import list_skills
from instar.engine.documents import Prd
from instar.flows.auth import secret_file
from instar.flows.errors import PrefectRefused
from instar.flows.orphans import marked
from instar.flows.rest import Rest
from instar.flows.review_runs import Run, open_review, reached, tend
from instar.flows.server import Server
from instar.flows.vectors import VectorsOwner
from instar.flows.worker import Worker
from instar.memstore import PageDraft, PageType, Provenance

REQUIRED = "chromium" in os.environ.get("INSTAR_REQUIRE", "")
CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists() and not REQUIRED:
    pytest.skip("needs /usr/bin/chromium", allow_module_level=True)

from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402

ROOT = Path(__file__).parents[2]
SCREENS = ROOT / "build" / "screens"
SESSIONS = ROOT / "examples" / "order_desk" / "sessions"
TOOLS = ROOT / "examples" / "order_desk" / "tools.toml"
INSTAR = Path(sys.executable).with_name("instar")
SOON = 120_000
"""Milliseconds within which a page of the UI shows what happened."""


@dataclass(frozen=True)
class Home:
    """A home with a server, a worker, and the drafts of the sample sessions."""

    settings: Settings
    night: dict[str, object]

    @property
    def rest(self) -> Rest:
        rest = reached(self.settings.home)
        assert rest is not None
        return rest

    def instar(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "INSTAR_HOME": str(self.settings.home)}
        command = [str(INSTAR), *map(str, arguments)]
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)

    def review(self, review_id: str) -> Review:
        with runtime(self.settings) as rt:
            return get_review(rt, review_id)

    def another(self, name: str) -> str:
        """One more draft that waits: the smaller of the two, under another name."""
        with runtime(self.settings) as rt:
            first = next(review for review in list_reviews(rt) if review.skill == "products-with-details")
            _, prd, _ = documents_of(rt, first)
            return build(rt, renamed(rt, first, prd, name)).review

    def run_of(self, review_id: str) -> Run:
        found = self.rest.post("/flow_runs/filter", {"flow_runs": {"tags": {"all_": [f"review:{review_id}"]}}})
        assert isinstance(found, list)
        assert len(found) == 1, "one review has one run"
        return Run.model_validate(found[0])

    def until(self, review_id: str, state: str) -> Run:
        deadline = time.monotonic() + SOON / 1000
        while (run := self.run_of(review_id)).state is None or run.state["name"] != state:
            assert time.monotonic() < deadline, run
            time.sleep(0.3)
        return run

    def until_asked_again(self, review_id: str, refused: int) -> None:
        """Wait until so many answers were refused, and the run asks again."""
        deadline = time.monotonic() + SOON / 1000
        while True:
            with runtime(self.settings) as rt:
                if len(refusals(rt, review_id)) == refused:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.3)
        self.until(review_id, "Suspended")

    def waiting(self, name: str) -> tuple[str, str]:
        """A new review that its suspended run asks about, and the page of that run."""
        review = self.another(name)
        with runtime(self.settings) as rt:
            place = open_review(rt, review)
        self.until(review, "Suspended")
        return review, place


def renamed(rt: Runtime, review: Review, prd: Prd, name: str) -> str:
    proposal = proposal_of(rt, review, prd)
    assert proposal is not None
    assert isinstance(rt.engine, Revises)
    other = rt.engine.revise(proposal, window(rt, "local", project=proposal.project), [f"rename to {name}"])
    assert other is not None
    page = PageDraft(
        id=other.id,
        kind="prd",
        type=PageType.EVIDENCE,
        content=other.model_dump(mode="json"),
        provenance=Provenance(source="test", references=()),
    )
    with rt.store.writeback(rt.principal, scope="local") as batch:
        return batch.append(page)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    place = tmp_path_factory.mktemp("ui") / "home"
    place.mkdir(mode=0o700)
    written = f"tools = {json.dumps(str(TOOLS))}\n[[sources]]\npaths = {json.dumps([str(SESSIONS)])}\n"
    (place / "instar.toml").write_text(written, encoding="utf-8")
    settings = load_settings({"INSTAR_HOME": str(place)}, {}, project=place.parent)
    try:
        up(settings)
        environment = {**os.environ, "INSTAR_HOME": str(place)}
        command = [str(INSTAR), "night", "--json"]
        ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        yield Home(settings, json.loads(ran.stdout))
    finally:
        Worker(place).stop()
        VectorsOwner(place).stop()
        Server(place).stop()
        assert marked(place) == []


def up(settings: Settings) -> None:
    info = Server(settings.home).start(timeout=240)
    Worker(settings.home).start(info, settings, project=ROOT, timeout=240)
    tend(settings, Rest(info.address))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sandbox = ["--no-sandbox", "--disable-gpu"] if os.geteuid() == 0 else ["--disable-gpu"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=sandbox)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1100})
    page = context.new_page()
    page.set_default_timeout(SOON)
    yield page
    shot(page, "99-the-end-of-the-last-test")
    context.close()


def shot(page: Page, name: str) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(400)
    page.screenshot(path=str(SCREENS / f"{name}.png"))


def fill(page: Page, *, decision: str = "", reviewer: str = "", comment: str = "", digest: str = "") -> None:
    """Open the form of a suspended run, and fill in what is given."""
    page.get_by_role("button", name="Resume").first.click()
    form = page.locator(".p-modal__card")
    expect(form.get_by_text("Decision", exact=True)).to_be_visible()
    if decision:
        form.locator(".p-select-button__control").first.focus()
        page.keyboard.press("ArrowDown")
        page.locator(".p-select-option").get_by_text(decision, exact=True).click()
    for label, value in (("Your name", reviewer), ("Comment", comment), ("Digest", digest)):
        if value:
            form.locator(".schema-form-property").filter(has_text=label).last.locator("textarea").fill(value)


def submit(page: Page) -> None:
    page.locator(".p-modal__card").get_by_role("button", name="Submit").click()


def test_a_review_is_opened_from_the_nights_report_read_approved_and_its_skill_runs(home: Home, page: Page) -> None:
    asked = home.night["asked"]
    assert isinstance(asked, dict)
    review = next(review for review in asked if review.startswith("products-with-details"))
    page.goto(str(home.night["run"]))
    page.locator("#artifacts").click()
    page.get_by_text("night", exact=True).first.click()
    link = page.locator(f"a[href='{asked[review]}']")
    expect(link.first).to_be_visible()
    shot(page, "01-report")
    page.goto(str(link.first.get_attribute("href")))
    expect(page.get_by_text("review products-with-details v0.1.0").first).to_be_visible()
    shot(page, "02-run-that-waits")
    fill(page, decision="approve", reviewer="ada", comment="as we do it by hand")
    shot(page, "03-form")
    whole = page.locator(".p-modal__card").get_by_role("link", name="the whole review").get_attribute("href")
    reading = page.context.new_page()
    reading.set_viewport_size({"width": 1400, "height": 3600})
    reading.goto(str(whole))
    expect(reading.get_by_text("What speaks against it").first).to_be_visible(timeout=SOON)
    shot(reading, "04-artifact")
    for heading in ("What speaks for it", "Gates", "Tools it may call", "Code", "What it was learned from"):
        expect(reading.get_by_text(heading, exact=True).first).to_be_visible()
    reading.close()
    submit(page)
    expect(page.get_by_text("Published", exact=True).first).to_be_visible(timeout=SOON)
    shot(page, "05-published")
    decided = home.review(review)
    assert decided.state is ReviewState.PUBLISHED
    assert decided.decision is not None
    assert (decided.decision.by, decided.decision.attested) == ("ada", "ui")
    assert decided.decision.comment == "as we do it by hand"
    ran = home.instar("skills", "run", "products-with-details", "--tools", TOOLS, "--arg", "query=table", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["status"]) == (0, "returned"), ran.stderr


def test_a_draft_rejected_in_the_form_is_not_published(home: Home, page: Page) -> None:
    review, place = home.waiting("rejected-in-the-form")
    page.goto(place)
    fill(page, decision="reject", reviewer="ada", comment="nobody needs it")
    submit(page)
    expect(page.get_by_text("Rejected", exact=True).first).to_be_visible(timeout=SOON)
    shot(page, "06-rejected")
    assert home.review(review).state is ReviewState.REJECTED
    with runtime(home.settings) as rt:
        assert "rejected-in-the-form" not in {row.name for row in list_skills(rt)}


def test_a_draft_sent_back_returns_as_a_new_review_that_says_why(home: Home, page: Page) -> None:
    review, place = home.waiting("sent-back")
    page.goto(place)
    fill(page, decision="revise", reviewer="ada", comment="Rename to search-in-detail. Do not use when offline.")
    submit(page)
    expect(page.get_by_text("SentBack", exact=True).first).to_be_visible(timeout=SOON)
    shot(page, "07-sent-back")
    with runtime(home.settings) as rt:
        revision = revision_of(rt, review)
    assert revision is not None
    answer = home.review(revision.answer)
    assert (answer.skill, answer.state, answer.revises) == ("search-in-detail", ReviewState.PENDING, review)
    run = home.until(answer.id, "Suspended")
    page.goto(f"{home.rest.address}/runs/flow-run/{run.id}")
    fill(page)
    whole = page.locator(".p-modal__card").get_by_role("link", name="the whole review").get_attribute("href")
    page.goto(str(whole))
    expect(page.get_by_text("An answer to a review that was sent back").first).to_be_visible(timeout=SOON)
    expect(page.get_by_text("When offline").first).to_be_visible()
    shot(page, "08-answer-to-a-revision")


def test_a_form_that_does_not_hold_is_asked_again_with_the_reason(home: Home, page: Page) -> None:
    review, place = home.waiting("asked-again")
    page.goto(place)
    fill(page)
    submit(page)
    expect(page.get_by_text("'decision' is a required property")).to_be_visible()
    shot(page, "09-empty-form")
    page.reload()
    fill(page, decision="revise", reviewer="ada")
    submit(page)
    home.until_asked_again(review, 1)
    page.reload()
    fill(page, decision="approve", reviewer="ada", digest="sha256:" + "0" * 64)
    expect(page.get_by_text("Your last answer did not count").first).to_be_visible()
    expect(page.get_by_text("the engine needs a comment").first).to_be_visible()
    shot(page, "10-asked-again")
    submit(page)
    home.until_asked_again(review, 2)
    page.reload()
    fill(page)
    expect(page.get_by_text("what you read is stale").first).to_be_visible()
    shot(page, "11-another-digest")
    assert home.review(review).state is ReviewState.PENDING
    ran = home.instar("review", "reject", review, "--by", "bob")
    assert ran.returncode == 0, ran.stderr
    assert home.until(review, "Rejected").state_type == "COMPLETED"
    page.goto(place)
    expect(page.get_by_text("Rejected", exact=True).first).to_be_visible()
    shot(page, "12-decided-on-the-command-line")


def test_a_draft_that_changed_while_it_was_read_is_not_published(home: Home, page: Page) -> None:
    review, place = home.waiting("changed-meanwhile")
    page.goto(place)
    fill(page, decision="approve", reviewer="ada")
    with runtime(home.settings) as rt:
        draft = rt.store.get(rt.principal, home.review(review).draft)
        assert draft is not None
        files = draft.content["files"]
        assert isinstance(files, dict)
        other = {**files, "scripts/skill.py": f"{files['scripts/skill.py']}\n# one more line\n"}
        with rt.store.writeback(rt.principal, scope="local") as batch:
            batch.replace(draft.id, content={**draft.content, "files": other}, expect=draft.version)
    submit(page)
    expect(page.get_by_text("Stale", exact=True).first).to_be_visible(timeout=SOON)
    shot(page, "13-stale")
    with runtime(home.settings) as rt:
        assert "changed-meanwhile" not in {row.name for row in list_skills(rt)}


def test_a_review_left_suspended_while_everything_was_killed_is_answered_and_published_once(
    home: Home, page: Page
) -> None:
    review, _ = home.waiting("after-the-crash")
    server = Server(home.settings.home).find()
    assert server is not None
    for pid in (server.pid, *marked(home.settings.home)):
        os.kill(pid, signal.SIGKILL)
    up(home.settings)
    run = home.until(review, "Suspended")
    page.goto(f"{home.rest.address}/runs/flow-run/{run.id}")
    fill(page, decision="approve", reviewer="ada")
    submit(page)
    expect(page.get_by_text("Published", exact=True).first).to_be_visible(timeout=SOON)
    shot(page, "14-published-after-a-crash")
    with runtime(home.settings) as rt:
        assert [row.name for row in list_skills(rt)].count("after-the-crash") == 1
        published = rt.store.find(rt.principal, scope="local", kind="publication", tag="skill:after-the-crash")
        assert len(list(published)) == 1


def test_with_a_password_the_ui_asks_for_it_and_reviews_go_on_waiting(home: Home, page: Page) -> None:
    review, _ = home.waiting("behind-a-password")
    ran = home.instar("up", "--auth")
    assert ran.returncode == 0, ran.stderr
    secret = secret_file(home.settings.home)
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text().strip() not in ran.stdout
    address = home.rest.address
    with pytest.raises(PrefectRefused, match="401"):
        Rest(address).post("/flow_runs/filter", {})
    page.goto(address)
    page.locator("input[type=password]").fill(secret.read_text().strip())
    shot(page, "15-password")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Dashboard", exact=True).first).to_be_visible()
    page.goto(f"{address}/runs/flow-run/{home.until(review, 'Suspended').id}")
    fill(page, decision="approve", reviewer="ada")
    submit(page)
    expect(page.get_by_text("Published", exact=True).first).to_be_visible(timeout=SOON)
    shot(page, "16-published-behind-a-password")
    assert home.review(review).state is ReviewState.PUBLISHED
    assert home.instar("up", "--no-auth").returncode == 0
    assert Rest(home.rest.address).post("/flow_runs/filter", {}) is not None
