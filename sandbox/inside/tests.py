"""Runs pytest inside the sandbox and reports every phase of every node to the trusted side as it happens.

    python tests.py

The opening holds pytest's arguments and a token that every report must carry. The package runs in this same process,
so the trusted side believes none of this alone: see `instar.sandbox.gates.tests`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import pytest

Call = Callable[[str, "dict[str, object]"], None]


def connect(descriptor: int) -> tuple[dict[str, object], Call, Callable[[object], None]]:
    """Give the opening, a function that makes one call and waits for the answer, and one that ends the talk."""
    read, write, encode, decode = os.read, os.write, json.JSONEncoder().encode, json.loads
    calls, rest = 0, b""

    def send(message: dict[str, object]) -> None:
        data = encode(message).encode("ascii") + b"\n"
        while data:
            data = data[write(descriptor, data) :]

    def receive() -> dict[str, dict[str, object]]:
        nonlocal rest
        while b"\n" not in rest:
            data = read(descriptor, 65536)
            if not data:
                raise ConnectionError("the broker is gone")
            rest += data
        line, rest = rest.split(b"\n", 1)
        received: dict[str, dict[str, object]] = decode(line)
        return received

    def call(tool: str, arguments: dict[str, object]) -> None:
        nonlocal calls
        calls += 1
        send({"id": calls, "tool": tool, "arguments": arguments})
        receive()

    return receive()["opening"], call, lambda value: send({"returned": value})


class Reporter:
    """A pytest plugin that reports what was collected and how each phase of each node ended."""

    def __init__(self, call: Call, token: object) -> None:
        def report(tool: str, **arguments: object) -> None:
            call(tool, {"token": token, **arguments})

        self._call = report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Report what will run."""
        self._call("collected", nodes=[item.nodeid for item in session.items])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a file that could not be collected."""
        if report.failed:
            self._call("broken", node=report.nodeid, message=str(report.longrepr)[-2000:])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report one phase of one node."""
        odd = "xfail" if hasattr(report, "wasxfail") else ""
        message = "" if report.passed else str(report.longrepr)[-2000:]
        self._call("phase", node=report.nodeid, when=report.when, outcome=odd or report.outcome, message=message)


def main() -> None:
    """Run pytest once."""
    opening, call, end = connect(int(os.environ.pop("INSTAR_BROKER")))
    token = opening["token"]
    arguments = opening["arguments"]
    code = pytest.main(arguments if isinstance(arguments, list) else [], plugins=[Reporter(call, token)])
    call("finished", {"token": token, "code": int(code)})
    end(None)


if __name__ == "__main__":
    sys.stdin.close()
    main()
