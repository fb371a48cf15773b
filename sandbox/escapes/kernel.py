"""Kernel interfaces that a small program never needs and that made many a way out."""

# ruff: noqa: PTH123

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import pty
import socket
import tempfile
import termios
from typing import Any

Lure = dict[str, Any]


def _call(x86_64: int, aarch64: int, *arguments: object) -> bool:
    """A system call by number; whether it did not fail."""
    number = x86_64 if os.uname().machine == "x86_64" else aarch64
    return bool(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments) >= 0)


def _unshare(flag: int) -> bool:
    return bool(ctypes.CDLL(None, use_errno=True).unshare(flag) == 0)


def nested_user_namespace(lure: Lure) -> object:
    """Become root in a namespace of one's own."""
    return _unshare(0x10000000)


def nested_mount_namespace(lure: Lure) -> object:
    """Rearrange the mounts."""
    return _unshare(0x00020000)


def nested_network_namespace(lure: Lure) -> object:
    """Get a network to play with."""
    return _unshare(0x40000000)


def nested_process_namespace(lure: Lure) -> object:
    """Hide processes."""
    return _unshare(0x20000000)


def host_namespace(lure: Lure) -> object:
    """Join a namespace of the host."""
    with open(f"/proc/{lure['victim']}/ns/net", "rb") as file:
        return bool(ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) == 0)


def mount(lure: Lure) -> object:
    """Mount a file system, and take it away again."""
    library, folder = ctypes.CDLL(None, use_errno=True), tempfile.mkdtemp().encode()
    if library.mount(b"none", folder, b"tmpfs", 0, None) != 0:
        return False
    library.umount2(folder, 2)
    return True


def mount_by_new_calls(lure: Lure) -> object:
    """Copy a tree of mounts."""
    return _call(428, 428, -100, b"/", 1)


def open_a_file_system(lure: Lure) -> object:
    """Configure a file system without mounting it yet."""
    return _call(430, 430, b"tmpfs", 0)


def ring_of_requests(lure: Lure) -> object:
    """Set up io_uring, whose requests no filter sees."""
    return _call(425, 425, 4, (ctypes.c_uint32 * 30)())


def kernel_program(lure: Lure) -> object:
    """Load something into the kernel's virtual machine."""
    attributes = (ctypes.c_uint32 * 18)(2, 4, 4, 1)
    return _call(321, 280, 0, attributes, ctypes.sizeof(attributes))


def page_faults_in_user_space(lure: Lure) -> object:
    """Handle page faults, the lever of many kernel exploits."""
    return _call(323, 282, 0x80000)


def performance_counters(lure: Lure) -> object:
    """Watch the processor."""
    attributes = (ctypes.c_uint32 * 32)(1, 128)
    return _call(298, 241, attributes, 0, -1, -1, 0)


def keyring(lure: Lure) -> object:
    """Keep a secret in the kernel, here only until this process ends."""
    return _call(248, 217, b"user", b"instar", b"x", 1, -2)


def keyring_of_the_session(lure: Lure) -> object:
    """Make a session keyring."""
    return _call(250, 219, 1, None)


def shared_memory_segment(lure: Lure) -> object:
    """Attach to a segment of the host by its key."""
    return bool(ctypes.CDLL(None, use_errno=True).shmget(lure["shm_key"], 0, 0) >= 0)


def message_queue(lure: Lure) -> object:
    """Make a message queue that other processes can open."""
    library = ctypes.CDLL(None, use_errno=True)
    name = f"/instar-{os.getpid()}".encode()
    if library.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
        return False
    library.mq_unlink(name)
    return True


def semaphore_set(lure: Lure) -> object:
    """Make a semaphore set that other processes can use."""
    library = ctypes.CDLL(None, use_errno=True)
    found = library.semget(0, 1, 0o600)
    if found < 0:
        return False
    library.semctl(found, 0, 0)
    return True


def memory_file(lure: Lure) -> object:
    """Keep data in memory that no limit counts."""
    os.close(os.memfd_create("instar"))
    return True


def watch_the_file_system(lure: Lure) -> object:
    """Be told of everybody's file accesses."""
    return _call(300, 262, 0, 0)


def kernel_log(lure: Lure) -> object:
    """Ask for the kernel's log by system call."""
    return bool(ctypes.CDLL(None, use_errno=True).klogctl(10, None, 0) >= 0)


def host_name(lure: Lure) -> object:
    """Name the host what it is named."""
    name = socket.gethostname()
    socket.sethostname(name)
    return name == lure["hostname"]


def type_into_a_terminal(lure: Lure) -> object:
    """Put a character into a terminal's input."""
    master, slave = pty.openpty()
    if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
        os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 1)
    fcntl.ioctl(slave, termios.TIOCSTI, b"x")
    os.close(master)
    return True


def own_filter(lure: Lure) -> object:
    """Add a seccomp filter that answers its own system calls."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    allow = b"\x06\x00\x00\x00\x00\x00\xff\x7f"
    return _call(317, 277, 1, 8, ctypes.byref(Program(1, allow)))


def ports_of_the_machine(lure: Lure) -> object:
    """Touch the hardware directly, or the kernel's clock where there are no ports."""
    if os.uname().machine != "x86_64":
        return _call(112, 112, 0, None)
    return bool(ctypes.CDLL(None, use_errno=True).ioperm(0x80, 1, 1) == 0)


def accounting(lure: Lure) -> object:
    """Have the kernel log every process to a file; only one who may is told that there is none."""
    ctypes.CDLL(None, use_errno=True).acct(b"/nonexistent/instar")
    return ctypes.get_errno() == errno.ENOENT


def personality(lure: Lure) -> object:
    """Switch address randomisation off for what follows."""
    return bool(ctypes.CDLL(None, use_errno=True).personality(0x0040000) >= 0)


def signal_at_parent_death(lure: Lure) -> object:
    """Ask to survive the one who started this."""
    return bool(ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0) == 0)


def more_privileges(lure: Lure) -> object:
    """Find out whether a program could gain privileges by being run."""
    return bool(ctypes.CDLL(None, use_errno=True).prctl(39, 0, 0, 0, 0) == 0)


def other_architecture(lure: Lure) -> object:
    """Ask to be told of, or run as, another machine: the way around filters that look at numbers only."""
    if os.uname().machine != "x86_64":
        return _call(92, 92, 8)
    return bool(ctypes.CDLL(None, use_errno=True).syscall(0x40000000 | 39) > 0) or _call(135, 92, 8)
