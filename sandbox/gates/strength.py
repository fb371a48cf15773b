"""The `strength` gate: the cases notice when the code is wrong, and when the tools answer something else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import JsonValue

from instar.sandbox.gates.batch import all_exact
from instar.sandbox.gates.candidate import Candidate
from instar.sandbox.gates.judgement import Judgement, failed, incomplete, passed
from instar.sandbox.gates.mutants import Mutant, handler_probes, mutants
from instar.sandbox.gates.parsing import parse_python
from instar.sandbox.gates.tests import altered
from instar.sandbox.protocol import Limits, Sandbox
from instar.sandbox.report import Finding
from instar.skills.cases import Case
from instar.skills.package import SKILL_PY

MAX_MUTANTS = 24
REQUIRED_SHARE = 0.6
"""Of the mutants that must be noticed; some changes change nothing, and nobody can tell which beforehand."""
MUTANT_LIMITS = Limits(wall_seconds=5.0, cpu_seconds=3)


def strength(candidate: Candidate, sandbox: Sandbox) -> Judgement:
    """Judge how much the cases notice. Error paths that no recording reaches are named, and not held against them.

    Raises:
        SandboxUnavailable, SandboxFailed, InvalidJob: nothing is known about the draft.
    """
    try:
        tree = parse_python(candidate.files[SKILL_PY])
        probes = handler_probes(tree)
        cases = sorted(candidate.cases.values(), key=lambda case: (-len(case.calls), case.name))
        if not all_exact(sandbox, candidate, candidate.files, cases, MUTANT_LIMITS):
            return incomplete("the code as it is does not pass its own cases, so that no fault in it would show")
        with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
            unreached = [
                probe
                for probe, exact in zip(probes, pool.map(play_fault(candidate, cases, sandbox), probes), strict=True)
                if exact
            ]
            faults = mutants(tree, MAX_MUTANTS, without=[probe.lines for probe in unreached])
            noticed = [not exact for exact in pool.map(play_fault(candidate, cases, sandbox), faults)]
    except (KeyError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return incomplete(f"the code cannot be parsed: {error}"[:300])
    survivors = [fault for fault, killed in zip(faults, noticed, strict=True) if not killed]
    counts = {"mutants": len(faults), "killed": sum(noticed), "unreached": len(unreached)}
    findings = [*map(_survivor, survivors), *map(_unreached, unreached)]
    said = f"the cases notice {counts['killed']} of {counts['mutants']} deliberate faults"
    if not faults:
        return failed("there is nothing in the code that a test could notice", findings, counts)
    if counts["killed"] < REQUIRED_SHARE * len(faults):
        return failed(f"{said}; {REQUIRED_SHARE:.0%} are required", findings, counts)
    if not _depends_on_answers(candidate, cases, sandbox):
        return failed("what it returns does not depend on what the tools answer", findings, counts)
    return passed(said, findings, counts)


def _depends_on_answers(candidate: Candidate, cases: Sequence[Case], sandbox: Sandbox) -> bool:
    """Whether some case comes out differently when the tools answer something else.

    One leaf of an answer may not matter, such as the end of a page; then all of them are blanked. A skill that writes
    may ignore what it is told.
    """
    if any(tool.effect == "write" for tool in candidate.manifest.tools):
        return True
    told = [case for case in cases if any(call.error is None for call in case.calls)]
    answered = [_answered_otherwise(case, change) for change in (altered, _blank) for case in told]
    play = (all_exact(sandbox, candidate, candidate.files, [case], MUTANT_LIMITS) for case in answered)
    return not answered or not all(play)


def play_fault(candidate: Candidate, cases: Sequence[Case], sandbox: Sandbox) -> Callable[[Mutant], bool]:
    """A function that says whether every case comes out as recorded in spite of a fault."""

    def exact(fault: Mutant) -> bool:
        files = {**candidate.files, SKILL_PY: fault.source.encode("utf-8")}
        return all_exact(sandbox, candidate, files, cases, MUTANT_LIMITS)

    return exact


def _answered_otherwise(case: Case, change: Callable[[JsonValue], JsonValue]) -> Case:
    calls = [
        call.model_copy(update={} if call.error is not None else {"result": change(call.result)})
        for call in case.calls
    ]
    return case.model_copy(update={"calls": calls})


def _blank(value: JsonValue) -> JsonValue:
    """A value of the same make that says nothing."""
    match value:
        case dict():
            return {key: _blank(item) for key, item in value.items()}
        case list():
            return [_blank(item) for item in value]
        case str():
            return ""
        case _:
            return 0


def _survivor(fault: Mutant) -> Finding:
    message = f"no case notices `{fault.after}` instead of `{fault.before}`"
    return Finding(message=message, file=SKILL_PY, line=fault.line, rule=f"survivor-{fault.kind}", severity="low")


def _unreached(probe: Mutant) -> Finding:
    message = f"no recording reaches `{probe.before}`"
    return Finding(message=message, file=SKILL_PY, line=probe.line, rule="unreached", severity="low")
