"""Reading or changing what belongs to the host, or to the trusted side."""

# ruff: noqa: S108, PTH100, PTH104, PTH106, PTH108, PTH116, PTH118, PTH119, PTH120, PTH123, PTH208, PTH211

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import sys
import tempfile
from typing import Any

Lure = dict[str, Any]


def _same(path: str, found: list[int]) -> bool:
    status = os.stat(path)
    return [status.st_ino, status.st_mtime_ns] == found


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def host_passwd(lure: Lure) -> object:
    """Read the host's accounts."""
    return bool(_read("/etc/passwd")) and _same("/etc/passwd", lure["passwd"])


def host_shadow(lure: Lure) -> object:
    """Read the host's password hashes."""
    return bool(_read("/etc/shadow")) and _same("/etc/shadow", lure["shadow"])


def host_name_file(lure: Lure) -> object:
    """Read the host's name from its file."""
    return bool(_read("/etc/hostname")) and _same("/etc/hostname", lure["hostname_file"])


def host_home(lure: Lure) -> object:
    """List the home of the person who runs Instar."""
    return bool(os.listdir(lure["home"])) and _same(lure["home"], lure["home_status"])


def secret_by_path(lure: Lure) -> object:
    """Read a file of the host by its path."""
    return _read(lure["secret"]) == lure["token"]


def secret_by_relative_path(lure: Lure) -> object:
    """Climb out of the working directory."""
    return _read("../" * 30 + lure["secret"].lstrip("/")) == lure["token"]


def secret_by_symlink(lure: Lure) -> object:
    """Plant a symbolic link and follow it."""
    link = os.path.join(tempfile.mkdtemp(), "link")
    os.symlink(lure["secret"], link)
    return _read(link) == lure["token"]


def secret_by_hard_link(lure: Lure) -> object:
    """Give a file of the host a second name."""
    link = lure["secret"] + f".{os.getpid()}"
    os.link(lure["secret"], link)
    os.unlink(link)
    return True


def secret_by_root_of_a_process(lure: Lure) -> object:
    """Go through another process's root."""
    return _read(f"/proc/{lure['victim']}/root{lure['secret']}") == lure["token"]


def secret_by_own_root(lure: Lure) -> object:
    """Go through `/proc/self/root`."""
    return _read(f"/proc/self/root{lure['secret']}") == lure["token"]


def secret_by_handle(lure: Lure) -> object:
    """Open a file by a kernel handle instead of a path (the escape known as shocker)."""
    library = ctypes.CDLL(None, use_errno=True)
    handle = (ctypes.c_uint32 * 40)(128, 0)
    mount = ctypes.c_int()
    if library.name_to_handle_at(-100, lure["secret"].encode(), handle, ctypes.byref(mount), 0) != 0:
        return False
    root = os.open("/", os.O_RDONLY)
    opened = library.open_by_handle_at(root, handle, os.O_RDONLY)
    return opened >= 0 and os.read(opened, 64) == lure["token"].encode()


def secret_in_environment(lure: Lure) -> object:
    """Find the secret in the environment."""
    return lure["token"] in os.environ.values()


def secret_in_parent_environment(lure: Lure) -> object:
    """Find the secret in another process's environment."""
    with open(f"/proc/{lure['victim']}/environ", "rb") as file:
        return lure["token"].encode() in file.read()


def inherited_descriptor(lure: Lure) -> object:
    """Find an open file of the trusted side."""
    for number in range(3, 1024):
        try:
            if os.pread(number, 64, 0) == lure["token"].encode():
                return True
        except OSError:
            continue
    return False


def shared_memory_file(lure: Lure) -> object:
    """Read the host's shared memory."""
    return _read(f"/dev/shm/{lure['shm_file']}") == lure["token"]


def write_beside_the_secret(lure: Lure) -> object:
    """Leave a file on the host."""
    path = os.path.join(os.path.dirname(lure["secret"]), f"left.{os.getpid()}")
    with open(path, "x", encoding="utf-8") as file:
        file.write("x")
    os.unlink(path)
    return True


def change_own_code(lure: Lure) -> object:
    """Change the files under test."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "files.py"), "r+b"):
        return True


def add_to_own_folder(lure: Lure) -> object:
    """Add a file beside the code under test, as a `conftest.py`."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"conftest{os.getpid()}.py")
    with open(path, "xb"):
        os.unlink(path)
        return True


def change_standard_library(lure: Lure) -> object:
    """Change a module that every later run imports."""
    with open(os.__file__, "r+b"):
        return True


def change_interpreter(lure: Lure) -> object:
    """Open the interpreter's folder for new files."""
    path = os.path.join(os.path.dirname(os.path.realpath(sys.executable)), f"left.{os.getpid()}")
    with open(path, "xb"):
        os.unlink(path)
        return True


def write_to_root(lure: Lure) -> object:
    """Write to the root folder."""
    path = f"/left.{os.getpid()}"
    with open(path, "xb"):
        os.unlink(path)
        return True


def write_to_devices(lure: Lure) -> object:
    """Write to the device folder."""
    path = f"/dev/left.{os.getpid()}"
    with open(path, "xb"):
        os.unlink(path)
        return True


def unmask_by_rename(lure: Lure) -> object:
    """Move a system folder away, to put another in its place."""
    folder = tempfile.mkdtemp(dir="/usr/lib")
    os.rename(folder, folder + ".moved")
    os.rmdir(folder + ".moved")
    return True


def chroot(lure: Lure) -> object:
    """Change the root folder, the first half of the classic way out."""
    os.chroot(tempfile.mkdtemp())
    return True


def make_block_device(lure: Lure) -> object:
    """Make a node for the disk under the root."""
    path = os.path.join(tempfile.mkdtemp(), "disk")
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(*lure["disk"]))
    return True


def make_memory_device(lure: Lure) -> object:
    """Make a node for physical memory."""
    path = os.path.join(tempfile.mkdtemp(), "mem")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 1))
    return True


def kernel_log_device(lure: Lure) -> object:
    """Read the kernel's log."""
    with open("/dev/kmsg", "rb", buffering=0):
        return True


def give_away_a_file(lure: Lure) -> object:
    """Give a file to root."""
    descriptor, path = tempfile.mkstemp()
    os.fchown(descriptor, lure["other_account"], lure["other_account"])
    os.unlink(path)
    return True


def host_modules(lure: Lure) -> object:
    """Look at the host's kernel modules and firmware."""
    return bool(os.listdir("/sys/kernel")) and _same("/sys/kernel", lure["sys_kernel"])


def kernel_setting(lure: Lure) -> object:
    """Open the setting by which the kernel runs a program of one's choice when something crashes."""
    with open("/proc/sys/kernel/core_pattern", "r+b", buffering=0):
        return True


def kernel_command_key(lure: Lure) -> object:
    """Open the kernel's emergency commands."""
    with open("/proc/sysrq-trigger", "wb", buffering=0):
        return True


def host_temporary_folder(lure: Lure) -> object:
    """See the host's temporary files."""
    return os.path.basename(lure["folder"]) in os.listdir(os.path.dirname(lure["folder"]))


def host_tool(lure: Lure) -> object:
    """Find a program of the host."""
    return shutil.which("sh") is not None and _same("/bin/sh", lure["sh"])
