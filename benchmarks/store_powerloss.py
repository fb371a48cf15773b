"""Power losses of a SQLite store, simulated: what a writer wrote and synchronised is recorded, then replayed cut off.

At a power loss a file holds all that was written before its last fsync. Of what was written since, any part may
have reached the disk, sector by sector, in any order; and a file that was made or deleted since the folder's last
fsync may be there or not. The shared-memory file is left out: SQLite makes it anew.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.errors import CannotLoad
from benchmarks.store_commits import BY, draft
from instar.memstore import MemstoreError, PageDraft, PageType, open_store

_SECTOR = 512
_PARTS = 3
"""Pages in a batch."""
_STORE, _ACKNOWLEDGED = "store.db", "acknowledged"
_CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,unlink"
_LINE = re.compile(rb"(\w+)\((.*)\)\s+= (\d+)")
_HEX = re.compile(rb"\\x([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class Event:
    """A call that changed a file or made changes durable. `name` is empty for the folder."""

    call: str
    name: str
    at: int = 0
    """Where it was written, or the size a file was cut to."""
    data: bytes = b""


# Recording --------------------------------------------------------------------------------------------------


def record(batches: int) -> list[Event]:
    """What a writer of this many batches does to its files, from the first opening to the last closing.

    Raises:
        CannotLoad: strace is missing here, or may not trace.
    """
    if shutil.which("strace") is None:
        raise CannotLoad("store", "strace is not installed")
    with tempfile.TemporaryDirectory(prefix="instar-power-", dir="/tmp") as name:
        folder, trace = Path(name) / "files", Path(name) / "trace"
        folder.mkdir()
        paths = [folder, *(folder / file for file in (_STORE, f"{_STORE}-wal", f"{_STORE}-journal", _ACKNOWLEDGED))]
        watched = [argument for path in paths for argument in ("-P", str(path))]
        command = [
            "strace",
            "-qq",
            "-y",
            "-xx",
            "-s",
            "10000000",
            "-e",
            f"trace={_CALLS}",
            *watched,
            "-o",
            str(trace),
        ]
        writer = [sys.executable, "-m", "benchmarks.store_powerloss", str(folder), str(batches)]
        ended = subprocess.run(
            [*command, *writer], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            raise CannotLoad("store", ended.stderr[-500:])
        return list(_events(trace.read_bytes(), str(folder)))


def _events(trace: bytes, folder: str) -> Iterator[Event]:
    for line in trace.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue  # a call that failed
        call, result = found[1].decode(), int(found[3])
        arguments = found[2].split(b", ")
        path = _text(arguments[1] if call == "openat" else arguments[0])
        if path != folder and not path.startswith(f"{folder}/"):
            continue
        name = path[len(folder) + 1 :]
        if call == "openat":
            if b"O_CREAT" in arguments[2]:
                yield Event("create", name)
        elif call == "write":
            yield Event(
                "acknowledge" if name == _ACKNOWLEDGED else "append", name, data=_bytes(arguments[1])[:result]
            )
        elif call == "pwrite64":
            yield Event("write", name, int(arguments[3]), _bytes(arguments[1])[:result])
        elif call == "ftruncate":
            yield Event("truncate", name, int(arguments[1]))
        else:
            yield Event("delete" if call == "unlink" else "sync", name)


def _bytes(quoted: bytes) -> bytes:
    return bytes.fromhex(b"".join(_HEX.findall(quoted)).decode())


def _text(argument: bytes) -> str:
    """The path in `4<path>` or in quotes."""
    inner = argument[argument.index(b"<") + 1 : argument.rindex(b">")] if b"<" in argument else argument.strip(b'"')
    return _bytes(inner).decode() if b"\\x" in inner else inner.decode()


def _write(folder: Path, batches: int) -> None:
    acknowledged = os.open(folder / _ACKNOWLEDGED, os.O_WRONLY | os.O_CREAT, 0o600)
    with open_store(f"sqlite:///{folder / _STORE}") as store:
        for n in range(batches):
            with store.writeback(BY, scope="local/power") as batch:
                for part in range(_PARTS):
                    batch.append(draft(f"b{n}-{part}"))
                if n == 0:
                    batch.append(PageDraft(kind="counter", type=PageType.PLAN, id="counter", content={"n": 0}))
                else:
                    batch.replace("counter", {"n": n}, expect=n)
            os.write(acknowledged, f"{n}\n".encode())


# Replaying --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Disk:
    """What is durable, and what was written since."""

    files: dict[str, bytearray] = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)
    """Files that the folder durably lists."""
    waiting: dict[str, list[Event]] = field(default_factory=dict)
    listed: dict[str, bool] = field(default_factory=dict)
    """Files made (or deleted) since the folder was synchronised."""
    acknowledged: int = 0
    """How many batches."""

    def apply(self, event: Event) -> None:
        """Let one call happen.

        Raises:
            ValueError: a call that this simulation does not know.
        """
        name = event.name
        if event.call == "acknowledge":
            self.acknowledged += event.data.count(b"\n")
        elif name == _ACKNOWLEDGED:
            pass
        elif event.call == "sync" and not name:
            for file, there in self.listed.items():
                (self.entries.add if there else self.entries.discard)(file)
            self.listed.clear()
        elif event.call == "sync":
            for waiting in self.waiting.pop(name, ()):
                _put(self.files.setdefault(name, bytearray()), waiting)
        elif event.call == "create":
            if self.listed.get(name) is False:
                raise ValueError("made again after it was deleted", name)
            if not self.listed.get(name, name in self.entries):
                self.listed[name] = True
        elif event.call == "delete":
            self.listed[name] = False
        elif event.call in ("write", "truncate"):
            self.waiting.setdefault(name, []).append(event)
        else:
            raise ValueError(event.call, name)

    def lose_power(self, rnd: random.Random, folder: Path) -> None:
        """Write into a folder what may be found then: all since the last fsync up to an instant, or any of it."""
        in_order = rnd.random() < 0.3
        share = rnd.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        there = set(self.entries)
        for name, now in self.listed.items():
            if rnd.random() < 0.5:
                (there.add if now else there.discard)(name)
        for name in there:
            content = bytearray(self.files.get(name, b""))
            waiting = self.waiting.get(name, [])
            for event in waiting[: rnd.randint(0, len(waiting))] if in_order else waiting:
                if in_order:
                    _put(content, event)
                else:
                    for part in _sectors(event):
                        if rnd.random() < share:
                            _put(content, part)
            (folder / name).write_bytes(content)


def _put(content: bytearray, event: Event) -> None:
    if event.call == "truncate":
        del content[event.at :]
        content.extend(bytes(event.at - len(content)))
        return
    content.extend(bytes(max(event.at - len(content), 0)))
    content[event.at : event.at + len(event.data)] = event.data


def _sectors(event: Event) -> Iterator[Event]:
    if event.call == "truncate":
        yield event
        return
    at, end = event.at, event.at + len(event.data)
    while at < end:
        upto = min(at - at % _SECTOR + _SECTOR, end)
        yield Event("write", event.name, at, event.data[at - event.at : upto - event.at])
        at = upto


def lost_after_power_losses(events: Sequence[Event], losses: int, seed: int = 7) -> int:
    """Power is lost at random instants; returns batches lost or half there, and what is unsound or unreadable."""
    rnd, lost, disk, done = random.Random(seed), 0, Disk(), 0
    for instant in sorted(rnd.randint(0, len(events)) for _ in range(losses)):
        for event in events[done:instant]:
            disk.apply(event)
        done = instant
        with tempfile.TemporaryDirectory(prefix="instar-power-", dir="/tmp") as folder:
            disk.lose_power(rnd, Path(folder))
            lost += _unsound(Path(folder), disk.acknowledged)
    return lost


def _unsound(folder: Path, acknowledged: int) -> int:
    """Batches lost or half there, and what the store's own check finds; 1 for a store that cannot be read."""
    sizes: dict[int, int] = {}
    try:
        with open_store(f"sqlite:///{folder / _STORE}") as store:
            found = len(store.check())
            for page in store.find(BY, scope="local/power", kind="step"):
                number = int(page.id[1:].partition("-")[0])
                sizes[number] = sizes.get(number, 0) + 1
            counter = store.get(BY, "counter")
    except MemstoreError:
        return 1
    half = {number for number, size in sizes.items() if size != _PARTS}
    missing = set(range(acknowledged)) - sizes.keys()
    count = -1 if counter is None else int(str(counter.content["n"]))
    return found + len(half | missing) + (count != max(sizes, default=-1))


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]))
