"""What is hidden in text: characters nobody sees, words meant for the agent, secrets, links, programs in disguise.

Code is looked at here only for its comments and texts; `code` looks at what it does.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from instar.sandbox.report import Finding

Severity = Literal["info", "low", "elevated", "high"]

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ORIENTATION = frozenset("\u200e\u200f\u061c")
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""Needed by emoji and by several scripts; suspicious only in code."""
_INVISIBLE = frozenset(
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060\u2061\u2062\u2063\u2064\u3164\uffa0\ufeff"
)

_INSTRUCTIONS = re.compile(
    r"""(?xi)
      \b(?:ignore|disregard|forget|override|bypass)\b [^.\n]{0,40}
        \b(?:previous|prior|above|earlier|all|any|your|system|safety)\b [^.\n]{0,30}
        \b(?:instruction|prompt|rule|message|guideline|direction|guardrail|restriction)s?\b
    | \b(?:do\s+not|don't|never|without)\b [^.\n]{0,20}
        \b(?:tell|telling|inform|informing|mention|mentioning|ask|asking|notify|notifying|reveal|alert|alerting)\b
        [^.\n]{0,20} \b(?:user|human|operator|reviewer|person|anyone|customer)\b
    | \byou\s+are\s+now\b [^.\n]{0,40} \b(?:mode|assistant|agent|admin|root|dan|unrestricted|developer)\b
    | \b(?:reveal|print|repeat|output|leak|send)\b [^.\n]{0,30}
        \b(?:system\s+prompt|hidden\s+instructions|api\s+keys?|credentials|passwords|environment\s+variables|secrets)\b
    | \b(?:exfiltrate|steal)\b
    | \b(?:always|must|automatically)\b [^.\n]{0,20} \b(?:approve|accept|grant|confirm)\b [^.\n]{0,40}
        \b(?:all|every|any|skill|request|permission|review)s?\b
    | <\s*/?\s*(?:system|assistant|instructions?|im_start|im_end|important)\s*>
    | \[\s*/?\s*(?:INST|SYSTEM)\s*\] | <\|im_(?:start|end)\|>
    | \bnew\s+(?:system\s+)?instructions?\s*:
    | \b(?:curl|wget|post|upload|send|transmit|forward)\b [^.\n]{0,60}
        (?:\b(?:conversation|transcript|chat\s+history|session|id_rsa|keychain|cookies|tokens?\.json|credentials)\b
           | \.ssh\b | \.env\b)
    """
)
_HTML_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_SHELL = re.compile(
    r"""(?xi)
      (?:curl|wget|fetch)\b [^\n|;]{0,300} \| \s* (?:sudo\s+)? (?:ba|z|da)?sh\b
    | base64\s+(?:-d|-D|--decode)\b [^\n]{0,100} \| \s* (?:ba|z|da)?sh\b
    | \b(?:ba|z|da)?sh\s+-c\s+["']?\$\((?:curl|wget)
    | \b(?:ba|z)?sh\s+<\(\s*(?:curl|wget)
    | \bpython3?\s+-c\s+["']?[^\n]{0,80}(?:urlopen|urllib|requests\.get|b64decode)
    | \brm\s+-(?=[a-z]{0,11}r)[a-z]{1,12}\s+(?:/|~|\$HOME)(?:\s|$|\*)
    | /dev/tcp/ | \bnc\s+-[a-z]*e\b | \bmkfifo\b[^\n]{0,80}\bnc\b
    | \bchmod\s+(?:\+s|[0-7]*4[0-7]{3})\b
    | >\s{0,9}[^\s>]{0,200}(?:authorized_keys|\.bashrc|\.zshrc|\.profile|crontab)\b
    | \b(?:powershell|pwsh)\b[^\n]{0,80}-(?:enc|encodedcommand|e)\b
    """
)
_SECRETS = {
    "private-key": re.compile(r"-----BEGIN (?:[A-Z]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"),
    "aws-key": re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    "github-token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})"),
    "openai-key": re.compile(r"\bsk-(?:[a-z]{1,12}-)?(?=[a-z_-]{0,200}[A-Z0-9])[A-Za-z0-9_-]{20,}"),
    "slack-token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    "slack-webhook": re.compile(r"hooks\.slack\.com/services/[A-Z0-9]{8,}/[A-Z0-9]{8,}/[A-Za-z0-9]{20,}"),
    "google-key": re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),
    "stripe-key": re.compile(r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    "gitlab-token": re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}"),
    "npm-token": re.compile(r"\bnpm_[A-Za-z0-9]{36}\b"),
    "pypi-token": re.compile(r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}"),
    "jwt": re.compile(r"\beyJ[A-Za-z0-9_-]{8,999}\.eyJ[A-Za-z0-9_-]{8,999}\.[A-Za-z0-9_-]{10,}"),
    "url-credentials": re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:(?!\$|\{|<|\*|x{3})[^\s/:@]{3,64}@[\w.-]+"),
}  # fmt: skip
_ASSIGNED_SECRET = re.compile(
    r"""(?i)\b(?:api[_-]?key|secret(?:[_-]?key)?|access[_-]?key|passw(?:or)?d|auth[_-]?token|bearer)["']?\s*(?:[:=]\s*|\s)["']?([A-Za-z0-9+/_.=-]{16,})"""
)
_LINK = re.compile(
    r"\b(?:https?|ftp|wss?)://([^\s/?#\"'<>)\]\\]+)|\b(javascript:|data:text/html|file://|vbscript:)", re.IGNORECASE
)
_KNOWN_HOSTS = (
    "agentskills.io", "docs.python.org", "json-schema.org", "www.w3.org", "schema.org", "opensource.org",
    "example.com", "example.org", "example.net", "www.example.com", "localhost", "127.0.0.1",
)  # fmt: skip
_MAGIC = {
    b"\x7fELF": "an ELF program",
    b"MZ": "a Windows program",
    b"\xfe\xed\xfa\xce": "a Mach-O program",
    b"\xfe\xed\xfa\xcf": "a Mach-O program",
    b"\xcf\xfa\xed\xfe": "a Mach-O program",
    b"\xca\xfe\xba\xbe": "a Java class or fat binary",
    b"\x00asm": "a WebAssembly module",
    b"#!": "a script with an interpreter line",
    b"PK\x03\x04": "an archive",
    b"\x1f\x8b": "a compressed archive",
    b"\xfd7zXZ": "a compressed archive",
    b"7z\xbc\xaf": "an archive",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
}
_ACTIVE_MARKUP = re.compile(r"(?i)<\s*script\b|\bon(?:load|error|click)\s*=|<\s*foreignObject\b|<!ENTITY")


def review_text(path: str, text: str, *, data: bool) -> Iterator[Finding]:
    """Findings about one text. `data` marks recorded values: what strangers wrote there is weaker evidence."""
    for number, line in enumerate(text.split("\n"), 1):
        yield from _characters(path, number, line, data=data)
    yield from review_words(path, text, data=data)
    if path.endswith(".md"):
        for match in _HTML_COMMENT.finditer(text):
            line_number = text.count("\n", 0, match.start()) + 1
            yield _finding(
                path, line_number, "an HTML comment, which a rendered view hides", "html-comment", "elevated"
            )


def review_words(path: str, text: str, *, data: bool) -> Iterator[Finding]:
    """Findings about what a text says, whatever characters it is made of."""
    for number, line in enumerate(text.split("\n"), 1):
        yield from _words(path, number, line, data=data)
        yield from _secrets(path, number, line)
        yield from _links(path, number, line, data=data)
    folded = " ".join(text.split())
    if _INSTRUCTIONS.search(folded) and not any(_INSTRUCTIONS.search(line) for line in text.split("\n")):
        yield _finding(path, 0, "words that instruct the agent, spread over lines", "hidden-instruction", "elevated")


def review_json(path: str, content: bytes) -> Iterator[Finding]:
    """Findings about every text inside a JSON file, escapes decoded."""
    value = json.loads(content.decode("utf-8"))
    stack = [value]
    texts: list[str] = []
    while stack:
        item = stack.pop()
        match item:
            case str():
                texts.append(item)
            case dict():
                stack += [*item.keys(), *item.values()]
            case list():
                stack += item
            case _:
                pass
    for text in dict.fromkeys(reversed(texts)):
        for found in review_text(path, text, data=True):
            yield found.model_copy(update={"line": 0})


def review_binary(path: str, content: bytes) -> Iterator[Finding]:
    """Findings about a file that is not text, or is text of an active kind."""
    for magic, what in _MAGIC.items():
        if content.startswith(magic):
            severity: Severity = "elevated" if what.endswith("archive") else "high"
            yield _finding(path, 0, f"is {what}", "disguised-program", severity)
            return
    if path.endswith((".svg", ".xml", ".html", ".htm")) and _ACTIVE_MARKUP.search(content.decode("utf-8", "replace")):
        yield _finding(path, 0, "markup that runs or loads something", "active-markup", "high")
    if not path.endswith((".svg", ".xml", ".txt", ".csv")) and b"<?php" in content:
        yield _finding(path, 0, "a program inside another format", "disguised-program", "high")


def _characters(path: str, number: int, line: str, *, data: bool) -> Iterator[Finding]:
    python = path.endswith(".py")
    found: dict[str, tuple[str, Severity]] = {}
    for char in set(line):
        name = f"U+{ord(char):04X}"
        if char in _BIDI:
            found[name] = ("bidirectional control", "high")
        elif 0xE0000 <= ord(char) <= 0xE0FFF:
            found[name] = ("tag character, invisible to people and readable by a model", "high")
        elif char in _INVISIBLE or char in _ORIENTATION or (char in _JOINERS and python):
            found[name] = ("invisible character", "elevated" if data or char == "\u00ad" else "high")
        elif unicodedata.category(char) in ("Cc", "Co", "Cs", "Cn") and char not in "\t\r":
            found[name] = ("control or unassigned character", "elevated" if data else "high")
    for name, (what, severity) in sorted(found.items()):
        yield _finding(path, number, f"{what} {name}", "invisible-character", severity)
    if sum(char in _JOINERS for char in line) > 16:
        yield _finding(path, number, "a long run of joiners or variation selectors", "invisible-character", "high")


def _words(path: str, number: int, line: str, *, data: bool) -> Iterator[Finding]:
    folded = unicodedata.normalize("NFKC", line)
    match = _INSTRUCTIONS.search(folded)
    if match:
        message = f"words that instruct the agent: {match.group()[:80]!r}"
        yield _finding(path, number, message, "hidden-instruction", "elevated")
    match = _SHELL.search(folded)
    if match:
        message = f"a dangerous command: {match.group()[:80]!r}"
        yield _finding(path, number, message, "dangerous-command", "elevated" if data else "high")


def _secrets(path: str, number: int, line: str) -> Iterator[Finding]:
    for rule, pattern in _SECRETS.items():
        if pattern.search(line):
            yield _finding(path, number, f"looks like a secret ({rule})", "secret", "high")
            return
    for match in _ASSIGNED_SECRET.finditer(line):
        value = match.group(1)
        mixed = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
        if mixed and _entropy(value) >= 3.5:
            yield _finding(path, number, "a value that looks like a password or key", "secret", "elevated")
            return


def _links(path: str, number: int, line: str, *, data: bool) -> Iterator[Finding]:
    for match in _LINK.finditer(line):
        host = (match.group(1) or "").rpartition("@")[2].partition(":")[0].lower()
        if match.group(2):
            yield _finding(path, number, f"an active link ({match.group(2)})", "link", "elevated" if data else "high")
        elif host not in _KNOWN_HOSTS:
            yield _finding(path, number, f"a link to {host[:80]}", "link", "low" if data else "elevated")


def _entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _finding(path: str, line: int, message: str, rule: str, severity: Severity) -> Finding:
    return Finding(message=message, file=path, line=line, rule=rule, severity=severity)
