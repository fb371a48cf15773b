"""Stands in for `instar.flows.working` where a test is about the process and not about Prefect.

`python fake_working.py MODE LOCK`: serves at once (`serves`), never (`silent`), ends while starting (`ends`), cannot
even detach (`broken`); `family` serves, and starts a child that leaves its group and ignores SIGTERM.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from instar.flows.daemon import detach
from instar.flows.worker import WorkerRecord, write_worker_record

MODE, LOCK = sys.argv[1], int(sys.argv[2])


def main() -> None:
    given = json.loads(sys.stdin.read())
    if MODE == "broken":
        sys.exit("no module named prefect")
    detach(LOCK)
    sys.stdout.write("booting\n")
    sys.stdout.flush()
    if MODE == "ends":
        sys.exit("a flow cannot be imported")
    if MODE == "silent":
        time.sleep(600)
    if MODE == "family":
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600 & wait"], start_new_session=True)
    home = Path(os.environ["INSTAR_HOME"])
    record = WorkerRecord(pid=os.getpid(), address=given["address"], settings=given["settings"], served=["evolve"])
    write_worker_record(home, record)
    time.sleep(600)


if __name__ == "__main__":
    main()
