"""The pulse of the worker: it shows that the worker lives, tells Prefect of failures, and continues cut-off nights.

It runs in a thread of its own, on a store of its own, and looks a few times a second; where nothing changed, such a
look is one query.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.core.events import EVENT, waiting
from instar.core.night import NightState, nights
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.flows.delivery import Debounce, deliver
from instar.flows.errors import PrefectRefused
from instar.flows.exclusive import only
from instar.flows.rest import Rest
from instar.memstore import MemstoreError

LOOK = 0.25
BEAT = 5.0
NIGHT_LOOK = 2.0
PATIENCE = 5.0
"""Seconds before a night that was cut off is continued; three times as long after each further attempt."""
PAUSE = 5.0
"""Seconds before the next look, where the store or the server failed."""
NIGHTLY = "/deployments/name/nightly/nightly"
log = logging.getLogger("instar.worker")


@dataclass(slots=True)
class Pulse:
    """What one worker looks after."""

    settings: Settings
    rest: Rest
    debounce: Debounce
    _seen: int = -1
    _night_at: float = 0.0
    _beat_at: float = 0.0
    _cut_off: dict[tuple[int, int], float] = field(default_factory=dict)
    """When a night was first found cut off, by its number and attempts."""

    def run(self, stop: threading.Event) -> None:
        """Look until told to stop. A store or a server that fails is asked again a little later."""
        while not stop.is_set():
            with ExitStack() as opened:
                try:
                    rt = opened.enter_context(runtime(self.settings))
                    while not stop.wait(LOOK):
                        self.look(rt, time.monotonic())
                except (MemstoreError, PrefectRefused) as error:
                    log.warning("%s", error)
                    self._seen = -1
                    stop.wait(PAUSE)

    def look(self, rt: Runtime, now: float) -> None:
        """One look.

        Raises:
            MemstoreError: the store cannot be read.
            PrefectRefused: the server does not answer, or says no.
        """
        if now >= self._beat_at:
            (self.settings.home / "prefect" / "worker.json").touch()
            self._beat_at = now + BEAT
        if self._changed(rt) or self.debounce.wakes_at(now) < now:
            deliver(self.rest, list(waiting(rt)), self.debounce, now)
        if now >= self._night_at:
            self._night_at = now + NIGHT_LOOK
            self._continue(rt, now)

    def _changed(self, rt: Runtime) -> bool:
        """Whether an event was kept or answered since the last look; the first look is always worth it."""
        changed = self._seen < 0
        self._seen = max(self._seen, 0)
        while rows := rt.store.outbox(since=self._seen, limit=5_000):
            self._seen = rows[-1].seq
            changed = changed or any(row.page_id.startswith(f"{EVENT}-") for row in rows)
        return changed

    def _continue(self, rt: Runtime, now: float) -> None:
        """Start the night again that was cut off: its page is open, and nobody works on it."""
        last = next(nights(rt), None)
        if last is None or last.state is not NightState.OPEN:
            self._cut_off.clear()
            return
        with only(self.settings.home / "night.lock") as free:
            pass
        key = (last.number, last.attempts)
        if not free:
            self._cut_off.pop(key, None)
            return
        since = self._cut_off.setdefault(key, now)
        if now - since < PATIENCE * 3 ** (last.attempts - 1):
            return
        deployment = self.rest.get(NIGHTLY)
        if isinstance(deployment, dict):
            # The hour in the key: a run that ended before it came to open the night is not the last one.
            body: dict[str, JsonValue] = {
                "name": f"night {last.number}, continued",
                "idempotency_key": f"night-{last.number}-{last.attempts}-{int(time.time() // 3600)}",
            }
            self.rest.post(f"/deployments/{deployment['id']}/create_flow_run", body)
            log.warning("night %d was cut off and is continued", last.number)
            self._cut_off[key] = now
