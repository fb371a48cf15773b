"""The server process itself: `python -m instar.flows.serving LOCK`, started by `instar.flows.server` only."""

from __future__ import annotations

import json
import socket
import sys

from instar.flows.daemon import detach
from instar.flows.environment import own_origins

GRACE = 5


def main() -> None:
    """Detach, then serve Prefect's API and UI on the socket that was inherited, until a signal ends it."""
    given = json.loads(sys.stdin.read())
    detach(int(sys.argv[1]))
    _serve(given["token"], given["address"], socket.socket(fileno=given["socket"]))


def _serve(token: str, address: str, listener: socket.socket) -> None:
    # Imported late: the starter waits until the process is detached, and these take seconds.
    import uvicorn  # noqa: PLC0415
    from prefect.server.api.server import create_app  # noqa: PLC0415

    from instar.flows.door import Door  # noqa: PLC0415
    from instar.flows.patience import Patience  # noqa: PLC0415

    config = uvicorn.Config(
        Door(Patience(create_app(final=True)), token=token, origins=own_origins(address)),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
