"""The seccomp program as Docker's JSON: the same tables, plus what the engine's own start and the launcher need."""

from __future__ import annotations

import json
from errno import ENOSYS, EPERM
from typing import Final

from pydantic import JsonValue

from instar.sandbox.seccomp import AF_UNIX, CLONE_NEW, IOCTL, PRCTL, architecture
from instar.sandbox.syscalls import ABSENT, ALLOWED

ENGINE: Final = ("capget", "capset", "chown", "fchown", "setgid", "setgroups", "setresgid", "setresuid", "setuid")
"""What the engine calls between loading the profile and starting the launcher."""
ENGINE_PRCTL: Final = (8, 23, 24, 38, 47)
"""The same, by prctl: capabilities, no new privileges."""


def profile(machine: str = "") -> str:
    """The profile for this architecture. The launcher's second program takes the rest away, as everywhere.

    Raises:
        SandboxUnavailable: the architecture is unknown.
    """
    here = architecture(machine)
    rules: list[JsonValue] = [_allow([*ALLOWED, *ENGINE])]
    rules.append(_allow(["clone"], _argument(0, CLONE_NEW, "SCMP_CMP_MASKED_EQ", 0)))
    rules += [_allow(["prctl"], _argument(0, number)) for number in (*PRCTL.values(), *ENGINE_PRCTL)]
    rules += [_allow(["ioctl"], _argument(1, number)) for number in IOCTL.values()]
    rules += [_allow([name], _argument(0, AF_UNIX)) for name in ("socketpair", "socket")]
    rules.append(_allow(["connect"]))
    rules.append({"names": [*ABSENT], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS})
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": EPERM,
            "architectures": [{"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}[here.name]],
            "syscalls": rules,
        }
    )


def _allow(names: list[str], *arguments: JsonValue) -> dict[str, JsonValue]:
    return {"names": [*names], "action": "SCMP_ACT_ALLOW", "args": [*arguments]}


def _argument(index: int, value: int, operator: str = "SCMP_CMP_EQ", second: int = 0) -> dict[str, JsonValue]:
    return {"index": index, "value": value, "valueTwo": second, "op": operator}
