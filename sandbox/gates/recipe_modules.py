"""What a recipe's Python scripts may import, and which names of it."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Final

from instar.sandbox.gates import modules
from instar.sandbox.gates.modules import ALLOWED_MODULES

MODULES: Final = ALLOWED_MODULES | {
    "argparse", "configparser", "contextlib", "csv", "fnmatch", "glob", "io", "logging", "os", "os.path", "pathlib",
    "platform", "shlex", "shutil", "subprocess", "sys", "tempfile", "time", "tomllib", "urllib.parse",
    "xml.etree.ElementTree",
}  # fmt: skip
_NAMES: Final = {
    "io": frozenset({"StringIO", "BytesIO", "TextIOWrapper", "SEEK_SET", "SEEK_CUR", "SEEK_END"}),
    "os": frozenset({
        "environ", "getcwd", "getenv", "path", "sep", "linesep", "listdir", "scandir", "walk", "fspath", "cpu_count",
        "makedirs", "mkdir", "replace", "rename", "remove", "unlink", "rmdir", "chdir", "stat", "devnull", "name",
        "PathLike",
    }),
    "sys": frozenset({
        "argv", "exit", "stdout", "stderr", "stdin", "executable", "version_info", "platform", "version", "maxsize",
    }),
    "shutil": frozenset({"which", "copy", "copy2", "copyfile", "copytree", "move", "rmtree", "disk_usage"}),
    "subprocess": frozenset({
        "run", "call", "check_call", "check_output", "Popen", "PIPE", "DEVNULL", "STDOUT", "CalledProcessError",
        "TimeoutExpired", "CompletedProcess", "SubprocessError",
    }),
}  # fmt: skip


@cache
def usable(module: str, name: str) -> bool:
    """Whether a script may use this name of a module: what it makes public, and no module that it happens to hold."""
    if f"{module}.{name}" in MODULES:
        return True
    if module in _NAMES:
        return name in _NAMES[module]
    if module in ALLOWED_MODULES:
        return modules.usable(module, name, frozenset())
    if module not in MODULES or name.startswith("_"):
        return False
    found = getattr(importlib.import_module(module), name, None)  # from the fixed list above, never from a draft
    return found is not None and not isinstance(found, ModuleType)
