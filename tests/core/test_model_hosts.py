"""Skills of a model that fetch pages: from sessions to a real use, on no other hosts than the sessions show."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import JsonValue

from instar.core.skills import call_skill
from instar.engine.llm.played_jobs import knowing, recorded
from instar.engine.session import ResultStatus, Session, ToolCall, ToolResult

Modelled = Callable[..., AbstractContextManager[Any]]
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


def page(good: str) -> str:
    rows = "".join(f"<tr><td>{good} {size}</td><td>{len(good)}.{size}0 EUR</td></tr>" for size in (1, 2))
    return f"<html><body><h1>{good}s</h1><table><tr><th>article</th><th>price</th></tr>{rows}</table></body></html>"


def rows_of(good: str) -> list[dict[str, str]]:
    return [{"article": f"{good} {size}", "price": f"{len(good)}.{size}0 EUR"} for size in (1, 2)]


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


def scraping(number: int, host: str) -> Session:
    good = GOODS[number]
    url = f"http://{host}/{good}"
    request = f"Please turn the price list at {url} into a table of articles."
    return recorded(number, request, [("fetch_page", {"link": url}, page(good))], json.dumps(rows_of(good)))


def scraped_use(text: str) -> JsonValue:
    url = re.search(r"price list at (http://\S+)", text)
    rows = re.search(r"assistant: (\[.*\])", text)
    return {
        "applies": bool(url and rows), "arguments_json": json.dumps({"url": url[1] if url else ""}), "calls": [1],
        "returns_ref": 0, "returns_path": [], "returns_json": rows[1] if rows else "",
    }  # fmt: skip


SCRAPING = knowing(
    scraped_use, SCRAPE, ["http.get"], [], skill="price-list-table", title="The table of a price list",
    summary="Turn the price list of a page into a table of articles.",
    purpose="Turn the price list of a page into a table of articles.",
    when_to_use=["A price list is to be turned into a table of articles"],
    inputs=[{"name": "url", "type": "string", "meaning": "The page with the price list.", "required": True}],
    output_type="array",
)  # fmt: skip


def test_a_page_becomes_a_table_through_a_host_that_the_sessions_show(shop: str, modelled: Modelled) -> None:
    with modelled(SCRAPING, builtins={"fetch_page": "http.get"}) as job:
        prd, one = job.built([scraping(n, shop) for n in range(7)])
        assert job.failures(one) == {}
        (tool,) = prd.tools
        assert (tool.name, tool.reach) == ("http.get", [shop])
        assert f"(only `{shop}`)" in job.file_of(one, "references/prd.md")
        job.approve(one)
        live = job.with_tools(
            f'[tools.web]\nbuiltin = "http.get"\nhosts = ["{shop}", "localhost:{shop[10:]}"]\nprivate = true\n'
        )
        used = call_skill(live, one.skill, {"url": f"http://{shop}/hammer"})
        assert (used.status, used.value) == ("returned", rows_of("hammer"))
        elsewhere = call_skill(live, one.skill, {"url": f"http://localhost:{shop[10:]}/hammer"})
        assert (elsewhere.status, "not granted for" in elsewhere.error) == ("refused", True)
        redirected = call_skill(live, one.skill, {"url": f"http://{shop}/away"})
        assert (redirected.status, "is not allowed" in redirected.error) == ("raised", True)
        file = call_skill(live, one.skill, {"url": "file:///etc/passwd"})
        assert file.status == "refused"


def test_a_private_address_stays_closed_unless_the_user_opens_it(shop: str, modelled: Modelled) -> None:
    with modelled(SCRAPING, builtins={"fetch_page": "http.get"}) as job:
        _, one = job.built([scraping(n, shop) for n in range(7)])
        job.approve(one)
        live = job.with_tools(f'[tools.web]\nbuiltin = "http.get"\nhosts = ["{shop}"]\n')
        used = call_skill(live, one.skill, {"url": f"http://{shop}/hammer"})
        assert (used.status, "not a public address" in used.error) == ("raised", True)


def test_a_host_that_one_task_alone_shows_is_not_granted(shop: str, modelled: Modelled) -> None:
    sessions = [scraping(n, shop) for n in range(7)]
    sessions[3] = scraping(3, "zanzibar.example")
    with modelled(SCRAPING, builtins={"fetch_page": "http.get"}) as job:
        prd, one = job.built(sessions)
        assert job.failures(one) == {}
        assert prd.tools[0].reach == [shop]
        assert "zanzibar" not in json.dumps([prd.model_dump(mode="json", exclude={"folds"}), one.report.model_dump()])


def test_a_host_that_the_job_itself_never_asked_is_not_granted(shop: str, modelled: Modelled) -> None:
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
    with modelled(SCRAPING, builtins={"fetch_page": "http.get"}) as job:
        prd, one = job.built(sessions)
        assert job.failures(one) == {}
        assert prd.tools[0].reach == [shop]
