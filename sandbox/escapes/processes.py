"""Starting, watching, or disturbing processes."""

# ruff: noqa: S605, S606, PTH123, PTH118, PTH208

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

Lure = dict[str, Any]
SAY = ("-c", "print('\\nESCAPED', flush=True)")


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _exit_if_child(process: int) -> bool:
    if process == 0:
        os._exit(0)
    if process > 0:
        os.waitpid(process, 0)
    return process > 0


def fork(lure: Lure) -> object:
    """Start a second process."""
    return _exit_if_child(os.fork())


def libc_fork(lure: Lure) -> object:
    """Fork behind Python's back."""
    return _exit_if_child(_library().fork())


def libc_vfork(lure: Lure) -> object:
    """Start a process by the oldest special call; `posix_spawn` and `system` rest on it."""
    return bool(_library().system(b"true") == 0)


def raw_clone(lure: Lure) -> object:
    """Clone by number."""
    number = 56 if os.uname().machine == "x86_64" else 220
    return _exit_if_child(_library().syscall(number, int(signal.SIGCHLD), 0, 0, 0, 0))


def raw_clone3(lure: Lure) -> object:
    """Clone by the newer call, whose arguments a filter cannot read."""
    arguments = (ctypes.c_uint64 * 11)()
    arguments[4] = int(signal.SIGCHLD)
    return _exit_if_child(_library().syscall(435, arguments, ctypes.sizeof(arguments)))


def spawn(lure: Lure) -> object:
    """Spawn another program."""
    _, status = os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}), 0)
    return status == 0


def shell(lure: Lure) -> object:
    """Run a shell command."""
    return os.system("true") == 0


def run_program(lure: Lure) -> object:
    """Run a program by the standard library."""
    return subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


def worker_process(lure: Lure) -> object:
    """Start a worker of the standard library."""
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0,))
    worker.start()
    worker.join()
    return worker.exitcode == 0


def execute_self(lure: Lure) -> object:
    """Become another program, without whatever watches this one from within."""
    os.execv(sys.executable, [sys.executable, *SAY])


def execute_from_memory(lure: Lure) -> object:
    """Run a program that has no file."""
    descriptor = os.memfd_create("program")
    with open(os.path.realpath(sys.executable), "rb") as source:
        os.write(descriptor, source.read(1 << 24))
    os.execve(descriptor, [sys.executable, *SAY], dict(os.environ))


def execute_dropped_file(lure: Lure) -> object:
    """Write a program to the temporary folder and run it."""
    path = os.path.join(tempfile.mkdtemp(), "program")
    with open(os.path.realpath(sys.executable), "rb") as source, open(path, "wb") as target:
        target.write(source.read())
    os.chmod(path, 0o700)  # noqa: PTH101
    os.execv(path, [path, *SAY])


def execute_by_descriptor(lure: Lure) -> object:
    """Run a program by descriptor only."""
    descriptor = os.open(os.path.realpath(sys.executable), os.O_RDONLY)
    arguments = (ctypes.c_char_p * 4)(b"python", b"-c", SAY[1].encode(), None)
    number = 322 if os.uname().machine == "x86_64" else 281
    _library().syscall(number, descriptor, b"", arguments, None, 0x1000)
    return False


def daemon(lure: Lure) -> object:
    """Leave a process behind that has nothing to do with this one any more."""
    process = os.fork()
    if process == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.2)
        os._exit(0)
    os.waitpid(process, 0)
    return True


def signal_another_process(lure: Lure) -> object:
    """Send a signal to a process of the host."""
    os.kill(lure["victim"], 0)
    return True


def signal_parent(lure: Lure) -> object:
    """Send a signal to whoever started this; process 1 is shielded by the kernel, whatever it is sent."""
    parent = os.getppid()
    if parent <= 1:
        return False
    os.kill(parent, 0)
    return True


def descriptor_for_another_process(lure: Lure) -> object:
    """Hold a process of the host."""
    os.close(os.pidfd_open(lure["victim"]))
    return True


def steal_a_descriptor(lure: Lure) -> object:
    """Take an open file out of another process."""
    process = os.pidfd_open(lure["victim"])
    return int(_library().syscall(438, process, 1, 0)) >= 0


def trace_another_process(lure: Lure) -> object:
    """Attach to a process of the host and leave it again."""
    library = _library()
    if library.ptrace(0x4206, lure["victim"], None, None) != 0:
        return False
    library.ptrace(0x4207, lure["victim"], None, None)
    os.waitpid(lure["victim"], os.WNOHANG | 0x40000000)
    return True


def trace_self(lure: Lure) -> object:
    """Ask to be traced, which gives power over one's own system calls."""
    return bool(_library().ptrace(0, 0, None, None) == 0)


def memory_of_another_process(lure: Lure) -> object:
    """Open the memory of a process of the host."""
    with open(f"/proc/{lure['victim']}/mem", "rb", buffering=0):
        return True


def memory_of_the_parent(lure: Lure) -> object:
    """Open the memory of whoever started this; inside, that is the launcher that holds the job."""
    with open(f"/proc/{os.getppid()}/mem", "r+b", buffering=0):
        return True


def open_files_of_the_parent(lure: Lure) -> object:
    """List the open files of whoever started this; inside, one of them is the way to the trusted side."""
    return os.listdir(f"/proc/{os.getppid()}/fd")


def read_across_processes(lure: Lure) -> object:
    """Copy memory from a process of the host."""

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    with open(f"/proc/{lure['victim']}/maps", encoding="utf-8") as file:
        base = int(file.readline().split("-")[0], 16)
    buffer = ctypes.create_string_buffer(16)
    own, other = Vector(ctypes.addressof(buffer), 16), Vector(base, 16)
    got = _library().process_vm_readv(lure["victim"], ctypes.byref(own), 1, ctypes.byref(other), 1, 0)
    return bool(got == 16)


def list_processes(lure: Lure) -> object:
    """See that a process of the host exists."""
    return str(lure["victim"]) in os.listdir("/proc")


def become_root(lure: Lure) -> object:
    """Take the account of root."""
    os.setuid(0)
    return os.geteuid() == 0


def join_a_group(lure: Lure) -> object:
    """Take another group."""
    os.setgroups([lure["other_account"]])
    return True


def raise_priority(lure: Lure) -> object:
    """Take processor time from everybody else."""
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    return True


def real_time_scheduling(lure: Lure) -> object:
    """Never be preempted again."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return True


def raise_own_limits(lure: Lure) -> object:
    """Lift a limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft + 1 if hard == soft else soft, hard + 1))
    return True


def limits_of_another_process(lure: Lure) -> object:
    """Change the limits of a process of the host, to what they are."""
    found = resource.prlimit(lure["victim"], resource.RLIMIT_CORE)
    resource.prlimit(lure["victim"], resource.RLIMIT_CORE, found)
    return True


def compare_with_another_process(lure: Lure) -> object:
    """Learn about another process's open files."""
    number = 312 if os.uname().machine == "x86_64" else 272
    return int(_library().syscall(number, os.getpid(), lure["victim"], 1, 0, 0)) >= 0
