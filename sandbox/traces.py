"""What jobs could leave behind on this machine, as far as it can be counted: to compare before and after."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Traces:
    """One count. `children` are process ids below this process; `folders` are its own in the temporary folder.

    Mounts are the whole machine's: comparing them means something only when nobody else starts containers.
    """

    descriptors: int
    children: tuple[int, ...]
    mounts: tuple[str, ...]
    folders: tuple[str, ...]

    def since(self, before: Traces) -> int:
        """How many things are here that were not before."""
        more = max(0, self.descriptors - before.descriptors)
        for now, then in (
            (self.children, before.children),
            (self.mounts, before.mounts),
            (self.folders, before.folders),
        ):
            more += len(set(map(str, now)) - set(map(str, then)))
        return more


def traces() -> Traces:
    """Count now."""
    return Traces(
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        children=tuple(_descendants()),
        mounts=tuple(sorted(Path("/proc/self/mountinfo").read_text().splitlines())),
        folders=tuple(sorted(path.name for path in Path(tempfile.gettempdir()).glob(f"instar-job-{os.getpid()}-*"))),
    )


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended in the meantime
            continue
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        parent = waiting.pop()
        children = [child for child, of in parents.items() if of == parent]
        found += children
        waiting += children
    return sorted(found)
