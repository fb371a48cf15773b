"""Runs pytest inside the sandbox and reports every phase of every node to the trusted side as it happens.

    python tests.py

The opening holds pytest's arguments and a token that every report must carry. The package runs in this same process,
so the trusted side believes none of this alone: see `instar.sandbox.gates.tests`.
"""

import json
import os
import sys

import pytest


def connect(descriptor):
    """Give the opening, a function that makes one call and waits for the answer, and one that ends the talk."""
    read, write, encode, decode = os.read, os.write, json.JSONEncoder().encode, json.loads
    state = {"calls": 0, "rest": b""}

    def send(message):
        data = encode(message).encode("ascii") + b"\n"
        while data:
            data = data[write(descriptor, data) :]

    def receive():
        while b"\n" not in state["rest"]:
            data = read(descriptor, 65536)
            if not data:
                raise ConnectionError("the broker is gone")
            state["rest"] += data
        line, state["rest"] = state["rest"].split(b"\n", 1)
        return decode(line)

    def call(tool, arguments):
        state["calls"] += 1
        send({"id": state["calls"], "tool": tool, "arguments": arguments})
        receive()

    return receive()["opening"], call, lambda value: send({"returned": value})


class Reporter:
    """A pytest plugin that reports what was collected and how each phase of each node ended."""

    def __init__(self, call, token):
        self._call = lambda tool, **arguments: call(tool, {"token": token, **arguments})

    def pytest_collection_finish(self, session):
        """Report what will run."""
        self._call("collected", nodes=[item.nodeid for item in session.items])

    def pytest_collectreport(self, report):
        """Report a file that could not be collected."""
        if report.failed:
            self._call("broken", node=report.nodeid, message=str(report.longrepr)[-2000:])

    def pytest_runtest_logreport(self, report):
        """Report one phase of one node."""
        odd = "xfail" if hasattr(report, "wasxfail") else ""
        message = "" if report.passed else str(report.longrepr)[-2000:]
        self._call("phase", node=report.nodeid, when=report.when, outcome=odd or report.outcome, message=message)


def main():
    """Run pytest once."""
    opening, call, end = connect(int(os.environ.pop("INSTAR_BROKER")))
    token = opening["token"]
    code = pytest.main(list(opening["arguments"]), plugins=[Reporter(call, token)])
    call("finished", {"token": token, "code": int(code)})
    end(None)


if __name__ == "__main__":
    sys.stdin.close()
    main()
