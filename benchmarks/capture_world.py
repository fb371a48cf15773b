"""The world of the benchmark's agents: orders, a ledger of what was done to them, and a death at a chosen moment."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from instar.adapters.capture import Recorder
from instar.core.settings import Settings

PROMPT = "Read every order of the list, in its order, and none twice."
ROLE = "You are a careful clerk."
KEEP_TOKENS = 1_600
BUDGET = 4_000
SESSION = "thirty-orders"
NOTE = "The parcel waits in the hall until somebody comes to sign for it. " * 3


class World:
    """The orders, and everything that was done to them."""

    def __init__(self, ledger: Path, kill_after: int) -> None:
        self._ledger, self._kill_after, self._done = ledger, kill_after, 0

    def read_order(self, order: int) -> dict[str, object]:
        """Read an order."""
        with self._ledger.open("a") as file:
            file.write(f"{order}\n")
            file.flush()
            os.fsync(file.fileno())
        return {"order": order, "state": "packed", "note": NOTE}

    def answered(self) -> None:
        """A call has been answered, and whoever records has recorded it; the framework has not kept it yet."""
        self._done += 1
        if self._done == self._kill_after:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalRecorder(Recorder):
    """A recorder whose process may die right after a result."""

    world: World

    def result(self, call_id: str, value: object = None, *, error: str = "", at: float | None = None) -> None:
        counts = self.running(call_id)
        super().result(call_id, value, error=error, at=at)
        if counts:
            self.world.answered()


def started(home: Path, agent: str, world: World) -> MortalRecorder:
    """The recorder of the session, begun or resumed."""
    recorder = MortalRecorder(Settings(home=home), agent=agent, session=SESSION, project="orders", budget=BUDGET)
    recorder.world = world
    recorder.start(bootstrap=ROLE, constraints=["Never read an order twice."])
    return recorder


def ended(recorder: Recorder | None, compactions: int) -> dict[str, object]:
    """What a run reports of itself."""
    faults = dict(recorder.faults) if recorder is not None else {}
    if recorder is not None:
        recorder.close("success")
    return {"compactions": compactions, "faults": faults}
