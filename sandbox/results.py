"""What came of a job, from what the loop saw and what the launcher said."""

from __future__ import annotations

from instar.sandbox.broker import Conversation
from instar.sandbox.errors import SandboxFailed
from instar.sandbox.protocol import Ending, Job, JobResult
from instar.sandbox.watch import Observed


def result(backend: str, job: Job, seen: Observed, conversation: Conversation | None) -> JobResult:
    """Put the loop's view and the launcher's word together.

    Raises:
        SandboxFailed: the launcher left without a word, so something outside ended it: no job can.
    """
    ending, reason = seen.ending, seen.reason
    code: int | None = None
    number: int | None = None
    if ending is None:
        match seen.end:
            case ("exit", said):
                code, ending = said, Ending.EXITED
            case ("memory", _):
                ending, reason = Ending.MEMORY, f"an allocation beyond {job.limits.memory_bytes} bytes failed"
            case ("files", _):
                ending, reason = Ending.FILES, f"more than {job.limits.tmp_files} files in /tmp"
            case ("cpu", _):
                ending, reason = Ending.CPU, f"more than {job.limits.cpu_seconds} s of processor time"
            case ("signal", said):
                number, ending, reason = said, Ending.KILLED, f"signal {said}"
            case _:
                raise SandboxFailed(backend, "it was ended from outside, or its limits left no room to start")
    return JobResult(
        ending=ending,
        exit_code=code,
        signal=number,
        stdout=bytes(seen.stdout),
        stderr=bytes(seen.stderr),
        seconds=seen.seconds,
        reason=reason,
        calls=() if conversation is None else tuple(conversation.calls),
        final=None if conversation is None else conversation.final,
    )
