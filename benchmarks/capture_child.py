"""An agent that reads thirty orders, in a process of its own that can be killed: with Instar's memory or its own.

Both sides run the same agent of the same framework, against the same model, with the same number of tokens for the
conversation. The tool writes every call down in a ledger before it answers, as the outside world would.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from benchmarks.capture_world import World

RUNS = {"langgraph": "benchmarks.capture_langgraph", "agents": "benchmarks.capture_agents"}


def main() -> None:
    """Run one agent to its end, or to its death."""
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=tuple(RUNS))
    parser.add_argument("side", choices=("instar", "own"))
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--kill-after", type=int, default=0)
    given = parser.parse_args()
    given.home.mkdir(parents=True, exist_ok=True)
    world = World(given.home / "ledger", given.kill_after)
    run = importlib.import_module(RUNS[given.framework]).run
    print(json.dumps(run(given.side, given.home, given.url, world)))


if __name__ == "__main__":
    main()
