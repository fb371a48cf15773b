"""What single programs would do with their arguments, as far as a recipe's reviewer has to know it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from instar.sandbox.gates import programs
from instar.sandbox.gates.shellwords import Word
from instar.sandbox.gates.targets import Severity, path_findings, removal_findings

_COPIERS: Final = frozenset({"cp", "mv", "install", "ln"})
_WRITERS: Final = frozenset({"tee", "touch", "mkdir", "truncate", "chmod", "chown", "chgrp"})
_RIGHTS: Final = re.compile(r"(?:[ugoa]*\+[rwx]*s|[2467][0-7]{3}|0?777)")
_LOOK: Final = frozenset({"docker", "podman", "base64", "xxd", "uudecode", "openssl"})
_SED_RUNS: Final = re.compile(r"(?:^|[;{}\d$/])\s{0,9}e(?:\s+\S|$)|^s(\W).{0,999}\1.{0,999}\1[gpiIm0-9]{0,9}e")
_HOST_FOLDER: Final = re.compile(r"(?:/|/etc|/root|/home|/var/run|~|\$\{?HOME)[^:]{0,99}:")
_AWK_RUNS: Final = re.compile(r"system\s*\(|\|\s*\"|getline")


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that speaks for a closer look."""

    message: str
    rule: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Known:
    """What the rest of the script tells about a word."""

    resolved: Callable[[Word], Word]
    """The word with variables replaced whose value is known."""
    made: Collection[str]
    """Variables that hold a folder of `mktemp`."""
    granted: Collection[str]
    """Names of tools that the manifest grants."""


def program_findings(name: str, rest: Sequence[Word], known: Known) -> Iterator[Seen]:
    """Findings about one program with its arguments; those that run others are followed elsewhere."""
    texts = [word.text for word in rest]
    if name in programs.FORBIDDEN or name.startswith("mkfs"):
        yield Seen(f"runs {name}, which no recipe may", "forbidden-program", "high")
    if any(programs.RUNS_MORE.match(text) for text in texts):
        yield Seen(f"an option of {name} that runs or sends something", "forbidden-option", "high")
    if name in programs.NETWORK or (name == "openssl" and "s_client" in texts):
        yield _network(f"reaches other machines through {name}", name in known.granted)
    elif name == "git":
        yield from git_findings(texts, known)
    elif name in programs.INSTALLERS | programs.RUNNERS:
        yield from install_findings(name, texts)
    else:
        yield from _files(name, list(rest), known)


def git_findings(texts: Sequence[str], known: Known) -> Iterator[Seen]:
    """Findings about git: what leaves the machine, what it would run, what may be lost."""
    verbs = [text for text in texts if not text.startswith("-")]
    said, verb = " ".join(texts), "".join(verbs[:1])
    if programs.GIT_SETTING.search(said) or "--global" in texts or "--system" in texts:
        yield Seen("changes what git runs, or its settings for all repositories", "git-setting", "high")
    if programs.GIT_RUNS.search(said):
        yield Seen("makes git run a command", "forbidden-option", "high")
    if verb in programs.GIT_NETWORK or re.search(r"\bremote (?:add|set-url)\b", said):
        yield _network(f"git {verb}: hands out, or says where to", "git" in known.granted)
    elif verb in programs.GIT_FETCH:
        yield Seen(f"git {verb}: fetches from another machine", "network", "elevated")
    elif verb in programs.GIT_LOSES:
        yield Seen(f"git {verb}: may lose work", "loses-work", "elevated")


def install_findings(name: str, texts: Sequence[str]) -> Iterator[Seen]:
    """Findings about package managers."""
    if "config" in texts and {"set", "edit"} & set(texts):
        yield Seen(f"{name} gets other settings, for everything", "install-from-address", "high")
    if name in programs.RUNNERS or programs.INSTALLING & set(texts):
        if any(programs.ELSEWHERE.match(text) for text in texts):
            yield Seen(f"{name} takes packages from an address of its own", "install-from-address", "high")
        else:
            yield Seen(f"{name} brings code of others: {' '.join(texts)[:80]}", "install", "elevated")


def write_findings(target: Word, known: Known) -> Iterator[Seen]:
    """Findings about a path that is written to."""
    for severity, message in path_findings(known.resolved(target), known.made):
        yield Seen(message, "write-outside", severity)


def _files(name: str, rest: list[Word], known: Known) -> Iterator[Seen]:
    """Programs that change or remove files, and a few to look at."""
    texts = [word.text for word in rest]
    paths = [word for word in rest if not word.text.startswith("-")]
    if name in ("rm", "rmdir", "unlink"):
        yield from _removed(rest, paths, known)
    elif name == "find" and {"-delete", "rm", "unlink"} & set(texts):
        first = next((place for place, text in enumerate(texts) if text.startswith("-")), 0)
        chosen = bool({"-name", "-iname", "-path", "-regex", "-newer"} & set(texts))
        yield from _removed([], [word for word in rest[:first] if not (chosen and word.text == ".")], known)
    elif name in _COPIERS and paths:
        folders = [
            word.after(len("--target-directory=")) for word in rest if word.text.startswith("--target-directory=")
        ]
        folders += [word for option, word in pairwise(rest) if option.text in ("-t", "--target-directory")]
        for word in folders or paths[-1:]:
            yield from write_findings(word, known)
    elif name in _WRITERS or (name == "sed" and any(text.startswith(("-i", "--in-place")) for text in texts)):
        for word in paths:
            yield from write_findings(word, known)
    elif name == "dd":
        for word in rest:
            if word.text.startswith("of="):
                yield from write_findings(word.after(3), known)
    else:
        yield from _others(name, texts)
    if name == "chmod" and any(_RIGHTS.fullmatch(text) for text in texts):
        yield Seen("gives rights that nobody needs", "permissions", "high")


def _others(name: str, texts: list[str]) -> Iterator[Seen]:
    if name == "sed" and any(_SED_RUNS.search(text) for text in texts):
        yield Seen("sed that runs other programs", "inline-code", "high")
    if (name, *texts[:1]) == ("hash", "-p"):
        yield Seen("changes what a name runs", "shadowing", "high")
    if name in ("cd", "pushd"):
        yield from _leaves(texts)
    if name == "make" and {"-f", "--file", "--makefile"} & set(texts) and {"-", "/dev/stdin"} & set(texts):
        yield Seen("make with rules that it is fed", "inline-code", "high")
    if name in ("docker", "podman") and any(_HOST_FOLDER.match(text) for text in texts):
        yield Seen("a container that holds folders of the host", "forbidden-option", "high")
    if name in ("awk", "gawk", "mawk") and _AWK_RUNS.search(" ".join(texts)):
        yield Seen(f"{name} that runs other programs", "inline-code", "high")
    elif name == "printenv" or (
        name in ("set", "export", "declare") and not [text for text in texts if text != "-p"]
    ):
        yield Seen("prints the environment, where secrets may be", "environment", "elevated")
    elif name in ("kill", "pkill", "killall"):
        everything = bool({"-1", "0", "1"} & set(texts[-1:]))
        yield Seen(f"ends processes through {name}", "kill", "high" if everything else "elevated")
    elif name in _LOOK:
        yield Seen(f"look at what {name} does", "look", "elevated")


def _leaves(texts: list[str]) -> Iterator[Seen]:
    """Another folder to work in: what is written next lands there."""
    to = "".join(text for text in texts if not text.startswith("-"))[:80]
    if not to or to.startswith(("/", "~", "$HOME", "${HOME")):
        yield Seen(f"leaves the repository for {to or '~'!r}", "leaves", "high")
    elif ".." in to.split("/") and "$" not in to:
        yield Seen(f"may leave the repository for {to!r}", "leaves", "elevated")


def _removed(words: Sequence[Word], paths: Sequence[Word], known: Known) -> Iterator[Seen]:
    for severity, message in removal_findings(words, [known.resolved(word) for word in paths], known.made):
        yield Seen(message, "removal", severity)


def _network(what: str, granted: bool) -> Seen:
    if granted:
        return Seen(f"{what}, as granted", "network", "elevated")
    return Seen(f"{what}, and the manifest grants no such tool", "network-not-granted", "high")
