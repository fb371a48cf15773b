"""Plays several cases of one skill in one process, for mutants: the trusted side answers each and compares each.

    python cases.py FILE

Reports travel as calls to `gate:case` and `gate:end`, which no tool can be called.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, __file__.rpartition("/")[0])  # this interpreter does not look beside the script

import runner  # type: ignore[import-not-found]  # its neighbour, copied in with it


def main() -> None:
    """Play until the trusted side has seen enough."""
    channel = runner.Channel(int(os.environ.pop("INSTAR_BROKER")))
    opening = channel.receive()["opening"]
    tools = runner.Tools(channel)
    module = None
    for index, arguments in enumerate(opening["cases"]):
        tools.call("gate:case", {"index": index})
        end: dict[str, object] = {}
        try:
            module = module or runner.load(sys.argv[1])
            end["returned"] = module.run(tools, **arguments)
        except Exception as error:  # noqa: BLE001 — whatever the code raises is how the case ended
            end = {"raised": str(error)[: runner.MESSAGE_CHARACTERS]}
        if tools.call("gate:end", end):
            break
    channel.send({"returned": None})


if __name__ == "__main__":
    main()
