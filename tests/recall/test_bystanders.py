"""An agent that uses the store and recall finds its process as it left it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = """
import json, logging, signal, sys, threading, warnings
from pathlib import Path

def seen():
    root = logging.getLogger()
    return {
        "level": root.level, "handlers": [str(each) for each in root.handlers], "warnings": str(warnings.showwarning),
        "signals": [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)],
        "hooks": [str(each) for each in (sys.excepthook, threading.excepthook, sys.unraisablehook)],
    }

if "configured" in sys.argv:
    logging.basicConfig(level=logging.ERROR, stream=sys.stdout)
    logging.captureWarnings(True)
before = seen()
from instar.memstore import PageDraft, PageType, Principal, open_store
from instar.memstore.recall import open_recall
address, me = f"sqlite:///{sys.argv[1]}/store.db", Principal("me", ("local",))
with open_store(address) as store, open_recall(store, address=address, folder=Path(sys.argv[1])) as recall:
    with store.writeback(me, scope="local") as batch:
        for n in range(2_600):
            batch.append(PageDraft("note", PageType.EVIDENCE, text=f"lamp {n} of the hall"))
    recall.catch_up()
    assert recall.search(me, "lamp 77", scope="local").status == "hit"
    assert "chromadb" in sys.modules and "wordllama" in sys.modules and "detect_secrets" in sys.modules
print(json.dumps([before, seen()]))
"""


@pytest.mark.parametrize("configured", [[], ["configured"]], ids=["as Python starts", "configured"])
def test_logging_warnings_and_signals_stay_as_they_were(tmp_path: Path, configured: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGENT, str(tmp_path), *configured], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    before, after = json.loads(done.stdout)
    assert after == before
