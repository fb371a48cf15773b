"""Skills of a model that fetch pages, read and write files, and bring a wheel along: from sessions to a real use."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import JsonValue

from instar.core.build import Built, build
from instar.core.ingest import ingest_sessions
from instar.core.learn import distill, reflect, specify
from instar.core.review_pages import DecisionKind
from instar.core.reviews import decide
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.core.skills import call_skill
from instar.engine.documents import Prd
from instar.engine.llm.config import ModelSettings
from instar.engine.llm.played import GOOD, Answers, playing
from instar.engine.llm.testing import ModelServer, serving
from instar.engine.session import (
    Message,
    Outcome,
    OutcomeStatus,
    ResultStatus,
    Session,
    Speaker,
    Step,
    ToolCall,
    ToolResult,
)
from instar.sandbox.report import Verdict
from instar.skills.manifest import Manifest
from instar.skills.package import MANIFEST

GOODS = ("kettle", "ladder", "basket", "candle", "mirror", "pillow", "carpet", "drawer", "hammer")

SCRAPE = """\
from html.parser import HTMLParser


class Table(HTMLParser):
    rows = ()
    cell = None

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows = (*self.rows, [])
        self.cell = "" if tag == "td" else None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag == "td":
            self.rows[-1].append(self.cell.strip())
        self.cell = None


def run(tools, *, url: str):
    parser = Table()
    parser.feed(tools.call("http.get", {"url": url})["text"])
    return [{"article": row[0], "price": row[1]} for row in parser.rows if len(row) == 2]
"""
PDF_WITH_PYPDF = """\
import base64
import io

from pypdf import PdfReader


def run(tools, *, path: str):
    content = base64.b64decode(tools.call("files.read", {"path": path, "encoding": "base64"}))
    lines = PdfReader(io.BytesIO(content)).pages[0].extract_text().strip().splitlines()
    text = "# " + lines[0] + "\\n\\n" + "\\n".join("- " + line for line in lines[1:]) + "\\n"
    tools.call("files.write", {"path": path + ".md", "text": text})
    return text
"""
PDF_WITH_OWN = PDF_WITH_PYPDF.replace("from pypdf import PdfReader", "import tiny_pdf").replace(
    "PdfReader(io.BytesIO(content)).pages[0].extract_text().strip().splitlines()",
    "tiny_pdf.lines(io.BytesIO(content).read())",
)
TINY_PDF = """\
import re


def lines(content):
    return [found.decode() for found in re.findall(rb"\\((.*?)\\) Tj", content)]
"""


def page(good: str) -> str:
    rows = "".join(f"<tr><td>{good} {size}</td><td>{len(good)}.{size}0 EUR</td></tr>" for size in (1, 2))
    return f"<html><body><h1>{good}s</h1><table><tr><th>article</th><th>price</th></tr>{rows}</table></body></html>"


def rows_of(good: str) -> list[dict[str, str]]:
    return [{"article": f"{good} {size}", "price": f"{len(good)}.{size}0 EUR"} for size in (1, 2)]


def pdf(good: str) -> bytes:
    """One page with a title and two lines, as small as a PDF can be."""
    drawn = "BT /F1 12 Tf 14 TL 50 700 Td " + " ".join(f"({line}) Tj T*" for line in pdf_lines(good)) + " ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body = b"%PDF-1.4\n"
    offsets = []
    for number, item in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{item}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = (
        f"xref\n0 6\n0000000000 65535 f \n{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    )
    return body + end.encode()


def pdf_lines(good: str) -> list[str]:
    return [f"Report on the {good}", f"The {good} sold well", f"The {good} is on stock"]


def markdown(good: str) -> str:
    first, *rest = pdf_lines(good)
    return f"# {first}\n\n" + "\n".join(f"- {line}" for line in rest) + "\n"


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/kettle")
            self.end_headers()
            return
        content = page(self.path.removeprefix("/")).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def recorded(number: int, request: str, exchanges: list[tuple[str, dict[str, JsonValue], JsonValue]], said: str):
    steps: list[Step] = [Message(0, Speaker.USER, request)]
    for turn, (tool, arguments, value) in enumerate(exchanges):
        steps.append(ToolCall(len(steps), f"c{turn}", tool, arguments, turn))
        steps.append(ToolResult(len(steps), f"c{turn}", tool, value, ResultStatus.OK))
    steps.append(Message(len(steps), Speaker.ASSISTANT, said))
    outcome = Outcome(OutcomeStatus.SUCCESS, "reward", 1.0)
    return Session(f"document-{number}", "test", "office", f"task-{number}", tuple(steps), outcome)


def scraping(number: int, host: str) -> Session:
    good = GOODS[number]
    url = f"http://{host}/{good}"
    request = f"Please turn the price list at {url} into a table of articles."
    return recorded(number, request, [("fetch_page", {"link": url}, page(good))], json.dumps(rows_of(good)))


def reporting(number: int, folder: Path) -> Session:
    good = GOODS[number]
    path = f"{folder}/{good}.pdf"
    request = f"Turn the report {path} into Markdown, and write it into a file beside the report."
    content = base64.b64encode(pdf(good)).decode()
    text = markdown(good)
    exchanges: list[tuple[str, dict[str, JsonValue], JsonValue]] = [
        ("files.read", {"path": path, "encoding": "base64"}, content),
        ("files.write", {"path": f"{path}.md", "text": text}, {"bytes": len(text)}),
    ]
    return recorded(number, request, exchanges, f"Done:\n{text}")


def numbers(text: str) -> list[int]:
    found = re.findall(r"^(?:session )?\[(\d+)\](?: \"|$)", text, re.MULTILINE)
    return [int(number) for number in dict.fromkeys(found)]


def scraped_use(text: str) -> JsonValue:
    url = re.search(r"price list at (http://\S+)", text)
    rows = re.search(r"assistant: (\[.*\])", text)
    return {
        "applies": bool(url and rows), "arguments_json": json.dumps({"url": url[1] if url else ""}), "calls": [1],
        "returns_ref": 0, "returns_path": [], "returns_json": rows[1] if rows else "",
    }  # fmt: skip


def reported_use(text: str) -> JsonValue:
    path = re.search(r"report (/\S+\.pdf)", text)
    good = Path(path[1]).stem if path else ""
    return {
        "applies": path is not None, "arguments_json": json.dumps({"path": path[1] if path else ""}), "calls": [1, 3],
        "returns_ref": 0, "returns_path": [], "returns_json": json.dumps(markdown(good)),
    }  # fmt: skip


def knowing(
    use: Callable[[str], JsonValue], code: str, tools: list[str], wheels: list[str], **told: JsonValue
) -> Answers:
    """A model that knows one of the two jobs."""
    specified = dict(GOOD["specified"](""))  # type: ignore[arg-type]
    suggested = dict(GOOD["suggested"](""))  # type: ignore[arg-type]
    return {
        **GOOD,
        "distilled": lambda _: {"memories": [], "instructions_found": []},
        "grouped": lambda text: {"groups": [{"what": "turn a document", "sessions": numbers(text)}]},  # type: ignore[dict-item]
        "found": lambda text: {
            "recurs": True, "why": "", "steps": ["Get it.", "Turn it."], "tools": list(tools),
            "sessions": numbers(text),
        },  # type: ignore[dict-item]
        "suggested": lambda _: {**suggested, **{k: told[k] for k in ("skill", "title", "summary")}, "against": []},
        "specified": lambda _: {
            **specified,
            **{k: told[k] for k in ("title", "purpose", "when_to_use", "inputs", "output_type")},
            "when_not_to_use": ["It was done already"],
            "output_meaning": "What was asked for.",
            "tools": [{"name": tool, "why": "It is called for the job."} for tool in tools],
            "wheels": list(wheels),
            "risks": [],
        },
        "recordeduse": use,
        "designed": lambda _: {"steps": ["Get it.", "Turn it."], "edge_cases": []},
        "coded": lambda _: {"code": code},
    }  # fmt: skip


SCRAPING = knowing(
    scraped_use, SCRAPE, ["http.get"], [], skill="price-list-table", title="The table of a price list",
    summary="Turn the price list of a page into a table of articles.",
    purpose="Turn the price list of a page into a table of articles.",
    when_to_use=["A price list is to be turned into a table of articles"],
    inputs=[{"name": "url", "type": "string", "meaning": "The page with the price list.", "required": True}],
    output_type="array",
)  # fmt: skip


def reports(code: str, wheel: str) -> Answers:
    return knowing(
        reported_use, code, ["files.read", "files.write"], [wheel, "requests"], skill="report-to-markdown",
        title="A report as Markdown", summary="Turn a report into Markdown and write it into a file beside it.",
        purpose="Turn a report into Markdown and write it into a file beside it.",
        when_to_use=["A report is to be turned into Markdown"],
        inputs=[{"name": "path", "type": "string", "meaning": "The file of the report.", "required": True}],
        output_type="string",
    )  # fmt: skip


@contextmanager
def home(tmp_path: Path, answers: Answers, **given: object) -> Iterator[tuple[Runtime, ModelServer]]:
    with serving(playing(answers)) as server:
        models = ModelSettings(base_url=server.url, timeout_seconds=30)
        chosen: dict[str, object] = {
            "engine": "model",
            "home": tmp_path / "home",
            "models": models,
            "host_skills": (),
        }
        with runtime(Settings.model_validate(chosen | given)) as rt:
            yield rt, server


def built(rt: Runtime, sessions: list[Session]) -> tuple[Prd, Built]:
    ingest_sessions(rt, sessions)
    distill(rt)
    (proposal,) = reflect(rt).proposals
    prd = specify(rt, proposal.id)
    return prd, build(rt, prd.id)


def failures(one: Built) -> dict[str, object]:
    return {r.gate: (r.summary, r.findings[:3]) for r in one.report.results if r.verdict is not Verdict.PASS}


def test_a_page_becomes_a_table_through_a_host_that_the_sessions_show(tmp_path: Path, shop: str) -> None:
    with home(tmp_path, SCRAPING, builtins={"fetch_page": "http.get"}) as (rt, _):
        prd, one = built(rt, [scraping(n, shop) for n in range(7)])
        assert failures(one) == {}
        (tool,) = prd.tools
        assert (tool.name, tool.reach) == ("http.get", [shop])
        assert f"(only `{shop}`)" in draft_file(rt, one, "references/prd.md")
        approve(rt, one)
        (tmp_path / "tools.toml").write_text(
            f'[tools.web]\nbuiltin = "http.get"\nhosts = ["{shop}", "localhost:{shop[10:]}"]\nprivate = true\n'
        )
        live = replace(rt, settings=rt.settings.model_copy(update={"tools": tmp_path / "tools.toml"}))
        used = call_skill(live, one.skill, {"url": f"http://{shop}/hammer"})
        assert (used.status, used.value) == ("returned", rows_of("hammer"))
        elsewhere = call_skill(live, one.skill, {"url": f"http://localhost:{shop[10:]}/hammer"})
        assert (elsewhere.status, "not granted for" in elsewhere.error) == ("refused", True)
        redirected = call_skill(live, one.skill, {"url": f"http://{shop}/away"})
        assert (redirected.status, "is not allowed" in redirected.error) == ("raised", True)
        file = call_skill(live, one.skill, {"url": "file:///etc/passwd"})
        assert file.status == "refused"


def test_a_private_address_stays_closed_unless_the_user_opens_it(tmp_path: Path, shop: str) -> None:
    with home(tmp_path, SCRAPING, builtins={"fetch_page": "http.get"}) as (rt, _):
        _, one = built(rt, [scraping(n, shop) for n in range(7)])
        approve(rt, one)
        (tmp_path / "tools.toml").write_text(f'[tools.web]\nbuiltin = "http.get"\nhosts = ["{shop}"]\n')
        live = replace(rt, settings=rt.settings.model_copy(update={"tools": tmp_path / "tools.toml"}))
        used = call_skill(live, one.skill, {"url": f"http://{shop}/hammer"})
        assert (used.status, "not a public address" in used.error) == ("raised", True)


def test_a_host_that_one_task_alone_shows_is_not_granted(tmp_path: Path, shop: str) -> None:
    sessions = [scraping(n, shop) for n in range(7)]
    sessions[3] = scraping(3, "zanzibar.example")
    with home(tmp_path, SCRAPING, builtins={"fetch_page": "http.get"}) as (rt, _):
        prd, one = built(rt, sessions)
        assert failures(one) == {}
        assert prd.tools[0].reach == [shop]
        assert "zanzibar" not in json.dumps([prd.model_dump(mode="json", exclude={"folds"}), one.report.model_dump()])


def test_a_host_that_the_job_itself_never_asked_is_not_granted(tmp_path: Path, shop: str) -> None:
    news = ("http.get", {"url": "https://news.example/today"}, {"status": 200, "type": "", "text": "nothing new"})
    sessions = []
    for number in range(7):
        plain = scraping(number, shop)
        last = plain.steps[-1]
        more = (
            ToolCall(3, "n", news[0], dict(news[1]), 1),
            ToolResult(4, "n", news[0], dict(news[2]), ResultStatus.OK),
        )
        sessions.append(replace(plain, steps=(*plain.steps[:-1], *more, replace(last, index=5))))
    with home(tmp_path, SCRAPING, builtins={"fetch_page": "http.get"}) as (rt, _):
        prd, one = built(rt, sessions)
        assert failures(one) == {}
        assert prd.tools[0].reach == [shop]


def wheelhouse(tmp_path: Path) -> Path:
    """A wheel of our own that reads the text of simple PDFs, and its pin."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel = folder / "tiny_pdf-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_pdf/__init__.py", TINY_PDF)
        archive.writestr("tiny_pdf-1.0.dist-info/METADATA", "Name: tiny-pdf\nVersion: 1.0\nSummary: Reads PDFs\n")
        archive.writestr("tiny_pdf-1.0.dist-info/WHEEL", "Root-Is-Purelib: true\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "requirements.txt").write_text(f"tiny-pdf==1.0 \\\n    --hash=sha256:{digest}\n")
    return folder


WHEELS = "INSTAR_TEST_WHEELS"


@pytest.mark.parametrize(
    ("wheel", "code"),
    [
        ("tiny-pdf", PDF_WITH_OWN),
        pytest.param(
            "pypdf",
            PDF_WITH_PYPDF,
            marks=pytest.mark.skipif(
                not os.environ.get(WHEELS), reason=f"{WHEELS} names no folder with the wheel of pypdf and its pin"
            ),
        ),
    ],
)
def test_a_pdf_becomes_markdown_with_a_wheel_that_the_user_allowed(tmp_path: Path, wheel: str, code: str) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    wheels = Path(os.environ[WHEELS]) if wheel == "pypdf" else wheelhouse(tmp_path)
    with home(tmp_path, reports(code, wheel), wheels=wheels) as (rt, server):
        prd, one = built(rt, [reporting(n, folder) for n in range(7)])
        assert failures(one) == {}
        assert [(tool.name, tool.reach) for tool in prd.tools] == [
            ("files.read", [str(folder)]),
            ("files.write", [str(folder)]),
        ]
        assert [pin.name for pin in prd.wheels] == [wheel]
        assert one.report.risk == "elevated"
        assert any("cases hold documents as they were recorded" in risk for risk in prd.risks)
        assert any(
            "Reads PDFs" in json.dumps(asked) or "pure-python PDF" in json.dumps(asked) for asked in server.asked
        )
        manifest = Manifest.model_validate_json(draft_file(rt, one, MANIFEST))
        assert [(pin.name, len(pin.sha256)) for pin in manifest.dependencies] == [(wheel, 1)]
        approve(rt, one)
        (folder / "lantern.pdf").write_bytes(pdf("lantern"))
        (tmp_path / "lantern.pdf").write_bytes(pdf("lantern"))
        (tmp_path / "tools.toml").write_text(
            f'[tools.notes]\nbuiltin = "files"\nread = ["{tmp_path}"]\nwrite = ["{tmp_path}"]\n'
        )
        live = replace(rt, settings=rt.settings.model_copy(update={"tools": tmp_path / "tools.toml"}))
        used = call_skill(live, one.skill, {"path": f"{folder}/lantern.pdf"})
        assert (used.status, used.value) == ("returned", markdown("lantern"))
        assert (folder / "lantern.pdf.md").read_text() == markdown("lantern")
        outside = call_skill(live, one.skill, {"path": f"{tmp_path}/lantern.pdf"})
        assert (outside.status, "not granted for" in outside.error) == ("refused", True)
        assert not (tmp_path / "lantern.pdf.md").exists()


def test_a_program_that_needs_a_wheel_nobody_allowed_fails_and_reaches_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    with home(tmp_path, reports(PDF_WITH_OWN, "tiny-pdf")) as (rt, _):
        prd, one = built(rt, [reporting(n, folder) for n in range(7)])
        assert prd.wheels == []
        assert one.verdict is Verdict.FAIL
        assert "imports tiny_pdf" in json.dumps(one.report.model_dump(mode="json"))
        assert one.review == ""


def draft_file(rt: Runtime, one: Built, path: str) -> str:
    page = rt.store.get(rt.principal, one.draft)
    assert page is not None
    files = page.content["files"]
    assert isinstance(files, dict)
    return str(files[path])


def approve(rt: Runtime, one: Built) -> None:
    decide(rt, one.review, DecisionKind.APPROVE, by="ada")
