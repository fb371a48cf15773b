"""Play many cases of one piece of code in one job: quick, and meant for code whose every wrong turn is welcome.

Only the comparison is trusted; the code could tell its own cases apart. A verdict that lets a draft pass rests on
`play`, where every case has a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from pydantic import JsonValue

from instar.sandbox.answers import Recorded
from instar.sandbox.broker import Broker, BrokerLimits
from instar.sandbox.errors import ToolError, Uncovered
from instar.sandbox.gates.candidate import Candidate
from instar.sandbox.gates.play import canonical
from instar.sandbox.protocol import Job, Limits, Returned, Sandbox
from instar.skills.cases import Case
from instar.skills.manifest import GrantedTool
from instar.skills.package import SKILL_PY, runtime_files

BEGIN, END = "gate:case", "gate:end"


def all_exact(
    sandbox: Sandbox, candidate: Candidate, files: Mapping[str, bytes], cases: Sequence[Case], limits: Limits
) -> bool:
    """Whether every case comes out as recorded with these files. Stops at the first that does not.

    Raises:
        SandboxUnavailable, SandboxFailed, InvalidJob: nothing is known about the code.
    """
    script = _Script(cases)
    control = {name: GrantedTool(name=name, why="speaks to the gate", effect="read") for name in (BEGIN, END)}
    opening: dict[str, JsonValue] = {"cases": [case.arguments for case in cases]}
    inside = resources.files("instar.sandbox.inside")
    programs = {f"gate/{name}": inside.joinpath(name).read_bytes() for name in ("cases.py", "runner.py")}
    job = Job(
        files={**programs, **{f"package/{path}": data for path, data in runtime_files(files).items()}},
        argv=("python", "/work/gate/cases.py", f"/work/package/{SKILL_PY}"),
        limits=limits,
        libraries=candidate.libraries,
        broker=Broker({**candidate.grants, **control}, script, BrokerLimits(calls=5000), opening),
    )
    result = sandbox.run(job)
    return (
        result.succeeded and not result.violations and result.final == Returned(None) and script.exact == len(cases)
    )


class _Script:
    """Answers one case after the other from its recording, and compares how each ends."""

    instant = True

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._current = -1
        self._recorded = Recorded(())
        self._uncovered = False
        self.exact = 0

    def answer(self, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """Answer one call; the end of a case is answered with whether to stop."""
        if tool == BEGIN:
            self._current += 1
            if (
                arguments.get("index") != self._current
                or self._current >= len(self._cases)
                or self.exact != self._current
            ):
                raise ToolError("out of order")
            self._recorded, self._uncovered = Recorded(self._cases[self._current].calls), False
            return None
        if tool == END:
            if self._uncovered or not _as_recorded(self._cases[self._current], arguments):
                return True
            self.exact += 1
            return False
        try:
            return self._recorded.answer(tool, arguments)
        except Uncovered:
            self._uncovered = True
            raise


def _as_recorded(case: Case, end: Mapping[str, JsonValue]) -> bool:
    if case.raises is not None:
        return end.get("raised") == case.raises
    return "returned" in end and canonical(end["returned"]) == canonical(case.returns)
