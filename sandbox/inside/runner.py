"""Runs a skill inside the sandbox: `run(tools, **arguments)` of a file, its tools behind the broker's descriptor.

    python runner.py FILE

Standard output and error never carry messages; the broker's descriptor is its own, named by INSTAR_BROKER. The
protocol is that of `instar.sandbox.broker`.
"""

# ruff: noqa: PTH120, PTH123, S102 — pathlib costs start-up time, and running the given file is the purpose.

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType

TRACEBACK_CHARACTERS = 8000
MESSAGE_CHARACTERS = 4000


class ToolError(Exception):
    """A tool answered with an error. `kind` is "tool", "refused", "invalid" or "uncovered"."""

    def __init__(self, message: str, kind: str = "tool") -> None:
        super().__init__(message)
        self.kind = kind


class Channel:
    """Lines of JSON over one descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def send(self, message: Mapping[str, object]) -> None:
        """Write one message; a value that is no JSON raises before anything is written."""
        data = json.dumps(message, allow_nan=False).encode("ascii") + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]

    def receive(self) -> dict[str, object]:
        """Read one message."""
        while b"\n" not in self._rest:
            data = os.read(self._descriptor, 65536)
            if not data:
                raise ConnectionError("the broker is gone")
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        message: dict[str, object] = json.loads(line)
        return message


class Tools:
    """What the skill is given: `tools.call(name, arguments)`, and `tools.name(**arguments)` where the name allows."""

    ToolError = ToolError

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls = 0
        self._lock = threading.Lock()

    def call(self, name: str, arguments: Mapping[str, object] | None = None) -> object:
        """Call a tool; raises ToolError with the tool's message when it answers with an error."""
        with self._lock:
            self._calls += 1
            self._channel.send({"id": self._calls, "tool": name, "arguments": dict(arguments or {})})
            answer = self._channel.receive()
        error = answer.get("error")
        if isinstance(error, dict):
            raise ToolError(error["message"], error["kind"])
        return answer["result"]

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(**arguments: object) -> object:
            return self.call(name, arguments)

        return call


def load(path: str) -> ModuleType:
    """The skill's module. Its folder comes last on the path, so that it cannot take the place of the library."""
    sys.path.append(os.path.dirname(path))
    module = ModuleType("skill")
    module.__file__ = path
    sys.modules["skill"] = module
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    return module


def main() -> None:
    """Run the skill once and send what came of it. Leaving by SystemExit sends nothing: that is no result."""
    channel = Channel(int(os.environ.pop("INSTAR_BROKER")))
    arguments = channel.receive()["opening"]
    try:
        value = load(sys.argv[1]).run(Tools(channel), **arguments)  # type: ignore[arg-type]
        channel.send({"returned": value})
    except SystemExit:
        raise
    except BaseException as error:
        trace = traceback.format_exc()[-TRACEBACK_CHARACTERS:]
        described = {"type": type(error).__name__, "message": str(error)[:MESSAGE_CHARACTERS], "traceback": trace}
        channel.send({"raised": described})
        if isinstance(error, MemoryError):
            raise


if __name__ == "__main__":
    main()
