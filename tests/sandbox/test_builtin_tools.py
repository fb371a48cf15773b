"""The built-in tools against a real server and real folders, and through the sandbox."""

from __future__ import annotations

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from instar.sandbox.answers import Live
from instar.sandbox.bindings import load_bindings
from instar.sandbox.broker import Broker
from instar.sandbox.errors import BindingError, ToolError
from instar.sandbox.filetools import Files
from instar.sandbox.skillrun import RunStatus, run_skill
from instar.sandbox.web import HttpGet
from instar.skills.manifest import GrantedTool


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        answers = {
            "/text": (200, "grüße".encode()),
            "/binary": (200, b"\xff\xfe"),
            "/large": (200, b"x" * 300_000),
            "/missing": (404, b"no"),
        }
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.end_headers()
            return
        if self.path == "/slow":
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(100):
                    self.wfile.write(b"x")
                    self.wfile.flush()
                    threading.Event().wait(0.05)
            except OSError:
                return
            return
        status, body = answers[self.path]
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_allowed_host_is_read(address):
    get = HttpGet(frozenset({address}), private=True)
    assert get(f"http://{address}/text") == {"status": 200, "type": "text/plain", "text": "grüße"}
    assert get(f"http://{address}/missing")["status"] == 404


@pytest.mark.parametrize(
    "url",
    [
        "http://other.example/",
        "http://127.0.0.1/text",
        "http://{0}.other.example/",
        "http://user@{0}/text",
        "http://other@{0}/text",
        "file:///etc/passwd",
        "ftp://{0}/text",
        "//{0}/text",
        "http:///text",
        "http://{0}/te xt",
        "http://{0}/\r\nX-Evil: 1",
        "http://[::1",
        "http://{0}:99999/",
        "http://\u0131.example/",
    ],
)
def test_everything_else_is_refused(address, url):
    with pytest.raises(ToolError):
        HttpGet(frozenset({address}), private=True)(url.format(address))


def test_private_addresses_need_to_be_allowed(address):
    with pytest.raises(ToolError, match="not a public address"):
        HttpGet(frozenset({address}))(f"http://{address}/text")


def test_redirects_stay_within_the_allowed_hosts(address):
    get = HttpGet(frozenset({address}), private=True)
    assert get(f"http://{address}/to?/text")["text"] == "grüße"
    with pytest.raises(ToolError, match="not allowed"):
        get(f"http://{address}/to?http://elsewhere.example/")
    with pytest.raises(ToolError, match="redirects"):
        get(f"http://{address}/to?/to?/to?/to?/to?/text")


def test_answers_are_bounded_in_size_and_time(address):
    with pytest.raises(ToolError, match="longer than 1000"):
        HttpGet(frozenset({address}), private=True, body_bytes=1000)(f"http://{address}/large")
    with pytest.raises(ToolError, match="cannot be read"):
        HttpGet(frozenset({address}), private=True, seconds=0.4)(f"http://{address}/slow")
    with pytest.raises(ToolError, match="cannot be read"):
        HttpGet(frozenset({address}), private=True)(f"http://{address}/binary")


def test_a_host_that_does_not_answer_is_a_tool_error():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ToolError, match="cannot be read"):
        HttpGet(frozenset({f"127.0.0.1:{port}"}), private=True)(f"http://127.0.0.1:{port}/")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "deep" / "a.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("secret")
    return Files([tmp_path / "in"], [tmp_path / "out"], file_bytes=1000)


def test_files_in_the_folders_are_read_and_written(files, tmp_path):
    assert files.read(f"{tmp_path}/in/deep/a.txt") == "inside"
    assert files.write(f"{tmp_path}/out/b.txt", "ü") == {"bytes": 2}
    assert files.write(f"{tmp_path}/out/b.txt", "new") == {"bytes": 3}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.txt"]
    assert (tmp_path / "out" / "b.txt").read_text() == "new"


@pytest.mark.parametrize(
    "path",
    ["secret.txt", "in/../secret.txt", "in/deep/../../secret.txt", "inside.txt", "in", "in/", "out/x", "in/link"],
)
def test_nothing_outside_the_folders_is_read(files, tmp_path, path):
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ToolError):
        files.read(f"{tmp_path}/{path}")
    with pytest.raises(ToolError):
        files.read(path)


def test_a_folder_that_became_a_link_is_not_followed(files, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError):
        files.write(f"{tmp_path}/out/sub/x.txt", "x")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_is_replaced_not_written_through(files, tmp_path):
    (tmp_path / "out" / "link").symlink_to(tmp_path / "secret.txt")
    files.write(f"{tmp_path}/out/link", "new")
    assert (tmp_path / "secret.txt").read_text() == "secret"


def test_odd_files_and_odd_content_are_refused(files, tmp_path):
    os.mkfifo(tmp_path / "in" / "pipe")
    (tmp_path / "in" / "binary").write_bytes(b"\xff")
    (tmp_path / "in" / "large").write_text("x" * 1001)
    for name in ("pipe", "binary", "large", "deep", "missing"):
        with pytest.raises(ToolError):
            files.read(f"{tmp_path}/in/{name}")
    with pytest.raises(ToolError):
        files.write(f"{tmp_path}/out/x", "x" * 1001)
    with pytest.raises(ToolError):
        files.write(f"{tmp_path}/out/missing/x", "x")


def test_built_in_tools_are_bound_by_the_file_and_used_by_a_skill(address, files, tmp_path, bubblewrap):
    (tmp_path / "tools.toml").write_text(
        f'[tools.web]\nbuiltin = "http.get"\nhosts = ["{address}"]\nprivate = true\n'
        '[tools.notes]\nbuiltin = "files"\nread = ["in"]\nwrite = ["out"]\n'
    )
    live = Live(load_bindings(tmp_path / "tools.toml"))
    grants = {
        name: GrantedTool(name=name, why="", effect="write", reach=[place])
        for name, place in (
            ("http.get", address),
            ("files.read", f"{tmp_path}/in/deep"),
            ("files.write", f"{tmp_path}/out"),
        )
    }
    source = (
        b"def run(tools, *, url, source, target):\n"
        b"    text = tools.call('http.get', {'url': url})['text']\n"
        b"    tools.call('files.write', {'path': target, 'text': text})\n"
        b"    return tools.call('files.read', {'path': source})\n"
    )
    arguments = {
        "url": f"http://{address}/text",
        "source": f"{tmp_path}/in/deep/a.txt",
        "target": f"{tmp_path}/out/c.txt",
    }
    run = run_skill(bubblewrap, {"scripts/skill.py": source}, arguments, Broker(grants, live))
    assert (run.status, run.value) == (RunStatus.RETURNED, "inside"), run.error
    assert (tmp_path / "out" / "c.txt").read_text() == "grüße"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('builtin = "http.get"', "allows no host"),
        ('builtin = "files"', "allows no folder"),
        ('builtin = "files"\nread = ["nowhere"]', "not a folder"),
        ('builtin = "shell"', "builtin"),
        ('builtin = "files"\npython = "a:b"', "exactly one source"),
    ],
)
def test_an_incomplete_built_in_is_said(tmp_path, text, said):
    (tmp_path / "tools.toml").write_text(f"[tools.x]\n{text}\n")
    with pytest.raises(BindingError, match=said):
        load_bindings(tmp_path / "tools.toml")
