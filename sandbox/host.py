"""Why a host cannot isolate, and what its owner can do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

OTHERWISE: Final = "Or use the Docker back end: set INSTAR_SANDBOX=docker."
MESSAGE_CHARACTERS: Final = 300


class Diagnosis(NamedTuple):
    """A cause, and its remedy."""

    cause: str
    remedy: str


def diagnose(message: str, root: Path = Path("/")) -> Diagnosis:
    """Explain a refusal of the kernel. `message` is what bwrap said; `root` is where /proc is looked up."""
    if _setting(root, "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return Diagnosis(
            "AppArmor forbids unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)",
            "Allow them with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give the bwrap program "
            f"an AppArmor profile that contains `userns,`. {OTHERWISE}",
        )
    if _setting(root, "user/max_user_namespaces") == "0":
        return Diagnosis(
            "user namespaces are switched off (user.max_user_namespaces = 0)",
            f"Allow them with `sysctl -w user.max_user_namespaces=10000`. {OTHERWISE}",
        )
    if _setting(root, "kernel/unprivileged_userns_clone") == "0":
        return Diagnosis(
            "unprivileged user namespaces are switched off (kernel.unprivileged_userns_clone = 0)",
            f"Allow them with `sysctl -w kernel.unprivileged_userns_clone=1`. {OTHERWISE}",
        )
    said = " ".join(message.split())[:MESSAGE_CHARACTERS] or "no message"
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return Diagnosis(
            f"this container does not allow nested namespaces ({said})",
            "Start it with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`. " + OTHERWISE,
        )
    return Diagnosis(f"the kernel refused ({said})", f"Check that user namespaces are enabled. {OTHERWISE}")


def _setting(root: Path, name: str) -> str:
    try:
        return (root / "proc/sys" / name).read_text().strip()
    except OSError:
        return ""
