"""What of the host a Python interpreter needs to run: its binary, its standard library, the shared libraries.

Nothing else of the host is shown to a job, and not under its host path: inside, every interpreter looks like a plain
`/usr/bin/python3`. That works for pyenv, distribution and relocatable builds, and hides the user's name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from instar.sandbox.errors import SandboxUnavailable

INSIDE_PYTHON: Final = "/usr/bin/python3"
PROBE_SECONDS: Final = 30

# Runs in the base interpreter. Loading every extension module makes the dynamic linker say what they need, whatever
# the host's linker configuration is; names are those the linker looked for, which is what it will look for inside.
PROBE: Final = r"""
import ctypes, importlib, json, os, sys, sysconfig
stdlib = sysconfig.get_path("stdlib")
dynload = os.path.join(sysconfig.get_path("platstdlib"), "lib-dynload")
suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
left_out = ("_tkinter", "_test", "_xx", "xx", "_ctypes_test", "nis", "_dbm", "_gdbm", "_curses", "readline")
for name in sorted(os.listdir(dynload)) if os.path.isdir(dynload) else []:
    if name.endswith(".so") and not name.startswith(left_out):
        try:
            importlib.import_module(name.split(".", 1)[0])
        except ImportError:
            pass
for extra in ("libgcc_s.so.1", "libstdc++.so.6"):
    try:
        ctypes.CDLL(extra)
    except OSError:
        pass
class Info(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
names = []
visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
def note(info, size, data):
    names.append(os.fsdecode(info.contents.name or b""))
    return 0
ctypes.CDLL(None).dl_iterate_phdr(visit(note), None)
inside = (os.path.realpath(stdlib) + os.sep, os.path.realpath(dynload) + os.sep)
libraries = [n for n in names if n.startswith("/") and not os.path.realpath(n).startswith(inside)]
print(json.dumps({"executable": os.path.realpath(sys.executable), "stdlib": os.path.realpath(stdlib),
                  "platlib": sys.platlibdir, "version": sys.version_info[:3], "libraries": libraries,
                  "dynload": os.path.realpath(dynload)}))
"""


class _Probed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    executable: str
    stdlib: str
    dynload: str
    platlib: str
    version: tuple[int, int, int]
    libraries: list[str]


@dataclass(frozen=True, slots=True)
class Place:
    """A host file or folder, and where the job sees it."""

    host: Path
    inside: str


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Everything to show to a job so that `INSIDE_PYTHON` runs. `masked` are folders inside to hide again."""

    version: str
    places: tuple[Place, ...]
    masked: tuple[str, ...]


@cache
def interpreter() -> Interpreter:
    """The interpreter that Instar itself runs on, without its environment's packages. Found once per process.

    Raises:
        SandboxUnavailable: it could not be asked, for example because it was built without ctypes.
    """
    executable = getattr(sys, "_base_executable", None) or sys.executable
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    command = [executable, "-I", "-S", "-B", "-c", PROBE]
    try:
        asked = subprocess.run(command, capture_output=True, env=kept, timeout=PROBE_SECONDS, check=False)
        asked.check_returncode()
        probed = _Probed.model_validate(json.loads(asked.stdout))
    except PermissionError as error:
        remedy = "Make the environment with a Python that every user may read, for example PYTHON=/usr/bin/python3."
        raise SandboxUnavailable("python", f"this user may not run the interpreter {executable}", remedy) from error
    except (OSError, subprocess.SubprocessError, ValueError, ValidationError) as error:
        raise SandboxUnavailable(
            "python", f"the interpreter {executable} could not be examined ({error})", "It needs the ctypes module."
        ) from error
    return _layout(probed)


def _layout(probed: _Probed) -> Interpreter:
    """Place the host's files as a plain `/usr`."""
    stdlib = Path(probed.stdlib)
    inside_stdlib = f"/usr/lib/{stdlib.name}"
    places = [Place(Path(probed.executable), INSIDE_PYTHON), Place(stdlib, inside_stdlib)]
    dynload = Path(probed.dynload)
    if dynload.parent != stdlib and dynload.is_dir():
        places.append(Place(dynload, f"/usr/{probed.platlib}/{stdlib.name}/lib-dynload"))
    seen: set[str] = set()
    for name in probed.libraries:
        library = Path(name)
        if library.name not in seen and library.is_file():
            seen.add(library.name)
            places.append(Place(library.resolve(), f"/usr/lib/{library.name}"))
    hidden = [folder for folder in ("site-packages", "dist-packages") if (stdlib / folder).is_dir()]
    masked = tuple(f"{inside_stdlib}/{folder}" for folder in hidden)
    return Interpreter(".".join(map(str, probed.version)), tuple(places), masked)
