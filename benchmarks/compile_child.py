"""Compiles N distinct generated sessions, from reflection to drafts, in a process of its own."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from examples.order_desk.record import sessions
from instar.engine.compiler.compiler import Compiler
from instar.engine.documents import Catalogue, Window
from instar.engine.importers import Imported, read_sources

SEED = 20


def main() -> None:
    """Print what was compiled and how long it took; reading the log is not part of it."""
    size = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "sessions.jsonl"
        with log.open("w", encoding="utf-8") as file:
            for session in islice(sessions(SEED, size), size):
                file.write(json.dumps(session) + "\n")
        read = [one.session for one in read_sources([log]) if isinstance(one, Imported)]
    compiler, catalogue, window = Compiler(), Catalogue(), Window("order-desk", read)
    started, busy = time.perf_counter(), time.process_time()
    reflection = compiler.reflect(window, catalogue)
    reflected = time.perf_counter() - started
    drafts = [compiler.write(compiler.specify(proposal, window), catalogue) for proposal in reflection.proposals]
    told = {
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - busy, 2),
        "reflect_seconds": round(reflected, 2),
        "sessions": len(read),
        "proposals": len(reflection.proposals),
        "drafts": [draft.skill for draft in drafts],
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
