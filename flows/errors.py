"""What can go wrong around the Prefect server of a home. Each message is one line that names the remedy.

FlowsError
├── HomeNotUsable            the home cannot be written
│   ├── NotAFolder               something else is in the place of a folder
│   └── HomeFull                 its disk or quota is full
├── LoopbackDown             this machine cannot reach itself on 127.0.0.1
├── PortTaken                the port that was asked for, or the whole range, is in use by others
├── ServerBusy               another start or stop did not end in time
├── ServerNotReady           the server did not answer in time
├── ServerEnded              the server ended while it was starting
├── WorkerNotReady           the worker did not begin to serve in time
├── WorkerEnded              the worker ended while it was starting
├── VectorsEnded             the process that owns the vectors ended while it was starting, or did not answer
├── CannotEnd                a process did not end, not even when killed
├── ServerNotRunning         the command needs a server, and none answers
├── PrefectRefused           the server did not answer a call of its API, or said no
└── PrefectAlreadyImported   Prefect was imported with other settings before ours were in place
"""

from __future__ import annotations

from pathlib import Path


class FlowsError(Exception):
    """Something around the flows failed, not in what they do."""


class HomeNotUsable(FlowsError):
    """The home cannot be written."""

    remedy = "give its owner write access or set INSTAR_HOME elsewhere"

    def __init__(self, home: Path, reason: str) -> None:
        self.home, self.reason = home, reason
        super().__init__(home, reason)

    def __str__(self) -> str:
        return f"cannot use {self.home}: {self.reason}; {self.remedy}"


class NotAFolder(HomeNotUsable):
    """Something else is in the place of the home, or of a folder of it."""

    remedy = "move away what is there, or set INSTAR_HOME elsewhere"


class HomeFull(HomeNotUsable):
    """The disk or the quota of the home is full."""

    remedy = "free some space and try again; nothing that was kept is lost"


class LoopbackDown(FlowsError):
    """This machine, or this network namespace, cannot reach itself on 127.0.0.1, where the server would answer."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return (
            f"127.0.0.1 cannot be reached ({self.reason}); bring the loopback interface up, `ip link set lo up`; "
            "`instar ingest`, `reflect`, `build`, `review`, `recall` and `maintain` work without it"
        )


class PortTaken(FlowsError):
    """The port that was asked for, or the whole range, is in use by others."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        super().__init__(first, last)

    def __str__(self) -> str:
        if self.first == self.last:
            return (
                f"port {self.first} of 127.0.0.1 is in use or not allowed; choose another, or none to have one found"
            )
        return f"no port of 127.0.0.1 from {self.first} to {self.last} is free; choose one outside this range"


class ServerBusy(FlowsError):
    """Another start or stop of the same home did not end in time."""

    def __init__(self, home: Path, seconds: float) -> None:
        self.home, self.seconds = home, seconds
        super().__init__(home, seconds)

    def __str__(self) -> str:
        return f"another start or stop of the server of {self.home} took more than {self.seconds:.0f} s; try again"


class _WithLog(FlowsError):
    """Shows the end of the log, where the reason usually is."""

    def __init__(self, log: Path, seconds: float, last_lines: str) -> None:
        self.log, self.seconds, self.last_lines = log, seconds, last_lines
        super().__init__(log, seconds, last_lines)

    def _tail(self) -> str:
        return f"\n{self.last_lines}" if self.last_lines else " (which is empty)"


class ServerNotReady(_WithLog):
    """The server did not answer in time; it was stopped again."""

    def __str__(self) -> str:
        return (
            f"the Prefect server did not answer within {self.seconds:.0f} s; "
            f"allow more time, or see {self.log}{self._tail()}"
        )


class ServerEnded(_WithLog):
    """The server ended while it was starting."""

    def __str__(self) -> str:
        return f"the Prefect server ended {self.seconds:.1f} s after its start; see {self.log}{self._tail()}"


class WorkerNotReady(_WithLog):
    """The worker did not begin to serve in time; it was stopped again."""

    def __str__(self) -> str:
        return (
            f"the worker did not begin to serve within {self.seconds:.0f} s; "
            f"allow more time, or see {self.log}{self._tail()}"
        )


class WorkerEnded(_WithLog):
    """The worker ended while it was starting."""

    def __str__(self) -> str:
        return f"the worker ended {self.seconds:.1f} s after its start; see {self.log}{self._tail()}"


class VectorsEnded(_WithLog):
    """The process that owns the vectors ended while it was starting, or did not answer; recall does without it."""

    def __str__(self) -> str:
        return (
            f"the owner of the vectors did not come up within {self.seconds:.1f} s; recall works without it; "
            f"see {self.log}{self._tail()}"
        )


class CannotEnd(FlowsError):
    """A process did not end, not even when killed."""

    def __init__(self, pid: int | None, reason: str) -> None:
        self.pid, self.reason = pid, reason
        super().__init__(pid, reason)

    def __str__(self) -> str:
        return f"cannot end process {self.pid or '(unknown)'}: {self.reason}"


class ServerNotRunning(FlowsError):
    """The command needs a server, and none answers."""

    def __init__(self, home: Path) -> None:
        self.home = home
        super().__init__(home)

    def __str__(self) -> str:
        return f"no Prefect server of {self.home} answers; start it with `instar up`"


class PrefectRefused(FlowsError):
    """The server did not answer a call of its API, or said no."""

    def __init__(self, address: str, path: str, reason: str) -> None:
        self.address, self.path, self.reason = address, path, reason
        super().__init__(address, path, reason)

    def __str__(self) -> str:
        return f"the Prefect server at {self.address} did not do {self.path}: {self.reason}; see `instar status`"


class PrefectAlreadyImported(FlowsError):
    """Prefect was imported with other settings before ours were in place; it reads them once, at import."""

    def __init__(self, home: Path) -> None:
        self.home = home
        super().__init__(home)

    def __str__(self) -> str:
        return (
            f"Prefect was already imported with other settings than those of {self.home}; "
            "adopt the environment before anything imports prefect, or run the flow in a child process"
        )
