"""The worker process itself: `python -m instar.flows.working LOCK`, started by `instar.flows.worker` only."""

from __future__ import annotations

import json
import sys

from instar.flows.daemon import detach


def main() -> None:
    """Detach, then run what is due until a signal ends it."""
    given = json.loads(sys.stdin.read())
    detach(int(sys.argv[1]))
    # Imported late: the starter waits until the process is detached, and these take seconds.
    from instar.flows.work import Bench, run  # noqa: PLC0415

    run(Bench(given["address"], given["token"], given["settings"]))


if __name__ == "__main__":
    main()
