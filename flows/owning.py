"""The process that owns a home's vectors: `python -m instar.flows.owning LOCK`, started by `instar.flows.vectors`."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType

from instar.flows.daemon import detach


def main() -> None:
    """Detach, then answer on the socket until a signal ends it."""
    given = json.loads(sys.stdin.read())
    detach(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, _leave)
    # Imported late: the starter waits until the process is detached.
    from instar.memstore.recall import IndexFailed  # noqa: PLC0415
    from instar.memstore.recall.graphs import embedded_graphs  # noqa: PLC0415
    from instar.memstore.recall.owner import serve  # noqa: PLC0415

    try:
        serve(Path(given["folder"]), embedded_graphs)
    except (IndexFailed, OSError) as error:
        sys.exit(str(error))


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
