"""Stands in for `instar.flows.serving` where a test is about the process and not about Prefect.

`python fake_serving.py MODE LOCK`: answers like a server of ours (`answers`), only after a while (`slow`), not at all
(`silent`), as a stranger (`stranger`), ends while starting (`ends`), cannot even detach (`broken`); `family` also
starts children that ignore SIGTERM, `stubborn` ignores SIGTERM.
"""

from __future__ import annotations

import http.server
import json
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

from instar.flows.daemon import detach
from instar.flows.identity import IDENTITY_PATH, prove

MODE, LOCK = sys.argv[1], int(sys.argv[2])


class Handler(http.server.BaseHTTPRequestHandler):
    token = ""

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        challenge = parse_qs(path.query).get("challenge", [""])[0]
        body = prove(self.token, challenge) if path.path == IDENTITY_PATH else "true"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name in http.server
        pass


def main() -> None:
    given = json.loads(sys.stdin.read())
    if MODE == "broken":
        sys.exit("no module named prefect")
    detach(LOCK)
    sys.stdout.write("booting\n")
    sys.stdout.flush()
    if MODE == "ends":
        sys.exit("database is locked")
    if MODE in ("silent", "slow"):
        time.sleep(600 if MODE == "silent" else 1)
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "family":
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600 & wait"])
    Handler.token = "another" if MODE == "stranger" else given["token"]
    listener = socket.socket(fileno=given["socket"])
    server = http.server.HTTPServer(listener.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.server_activate()
    server.serve_forever()


if __name__ == "__main__":
    main()
