"""Known shapes of secrets. Every pattern has anchors: without one of them in the text it never runs.

Quantifiers are bounded and starts are literal or behind a boundary, so that hostile text costs linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

_CI = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """One shape. The group named `secret` is what is replaced; without such a group, the whole match.

    `anchors` are lower-case strings, one of which occurs in the lower-cased text whenever the pattern matches; an
    `anchored` pattern begins there and is tried only there. `accept` looks at the secret and has the last word.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Callable[[str], bool] | None = None
    anchored: bool = True
    hint: str = ""
    """Where the anchor is too common to tell anything: an expression without look-around that matches somewhere
    in the lower-cased text whenever the pattern does."""

    def span(self, match: re.Match[str]) -> tuple[int, int]:
        """Where the secret lies."""
        return match.span("secret") if "secret" in self.pattern.groupindex else match.span()


_PLACEHOLDER = re.compile(
    r"(?:[*x.•-]+|<.*>?|\$.*|%.*%?|\{.*|\[.*|your[-_ ].*|my[-_ ]?(?:password|secret|token|key)|example.*|changeme|"
    r"none|null|nil|true|false|undefined|string|str|text|optional.*|required|password|passwd|secret|token|api[-_]?key|"
    r"redacted.*|hidden|placeholder.*|dummy.*|test(?:[-_ ](?:secret[-_ ]?)?key)?|todo|n/?a|empty|"
    r"invalid|missing|expired|unknown)\Z",
    _CI,
)
_CODE = re.compile(r"[(){}\[\]<>$`]|^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z|^(?:self|os|process|env|config|settings)\b")


def _quoted_value(value: str) -> bool:
    """Between quotes anything counts that is neither a placeholder nor prose."""
    return not _PLACEHOLDER.match(value) and " " not in value


def _bare_value(value: str) -> bool:
    """Without quotes it must not read like code or a word: a digit among letters."""
    if _PLACEHOLDER.match(value) or _CODE.search(value):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _header_value(value: str) -> bool:
    return not _PLACEHOLDER.match(value) and not value.isalpha()


def _url_password(value: str) -> bool:
    return not _PLACEHOLDER.match(value)


def _after(words: str, separators: str = "[_-]") -> str:
    """A look-behind for each word, with and without a separator after it."""
    return "|".join(f"(?<={word})|(?<={word}{separators})" for word in words.split())


# A bare `token` counts and `next_page_token` does not: a cursor is data that calls hand on to each other.
_NAME = (
    r"(?:passw(?:or)?d|passphrase|(?<![A-Za-z0-9])pwd|secret(?:[_-]?(?:access[_-]?)?key)?|"
    rf"(?:{_after('api access private account signing encryption')})key|"
    rf"(?:(?<![A-Za-z0-9_-])|{_after('auth access refresh session id bot api github gitlab slack csrf')})token)"
)
_NAME_ANCHORS = ("passw", "passphrase", "pwd", "secret", "key", "token")

OWN: tuple[SecretPattern, ...] = (
    SecretPattern(
        "private-key",
        ("-----begin ",),
        re.compile(
            # Where the end is missing or too far, a key is taken to be as long as a key can be: what follows a text
            # must not decide whether there is a secret in it.
            r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]{0,16000}?"
            r"-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|[\s\S]{0,16000})"
        ),
    ),
    SecretPattern("private-key", ("putty-user-key-file-",), re.compile(r"PuTTY-User-Key-File-[23]:[\s\S]{0,16000}")),
    SecretPattern(
        "jwt",
        ("eyj",),
        re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{4,8000}\.[A-Za-z0-9_-]{0,4000}"),
    ),
    SecretPattern(
        "authorization",
        ("bearer",),
        re.compile(r"(?<![A-Za-z0-9_-])bearer\s{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,4000})", _CI),
        _header_value,
    ),
    SecretPattern(
        "authorization",
        ("authorization",),
        re.compile(
            r"authorization\\{0,4}[\"']?\s{0,4}[:=]\s{0,4}\\{0,4}[\"']?(?:[a-z]{2,12}\s{1,4})?"
            r"(?P<secret>[A-Za-z0-9._~+/=-]{12,4000})",
            _CI,
        ),
        _header_value,
    ),
    SecretPattern(
        "url-password",
        ("://",),
        re.compile(r"://[^\s:/@?#\"'<>\\]{0,200}:(?P<secret>[^\s:/@\"'<>\\]{1,200})@"),
        _url_password,
    ),
    SecretPattern(
        "openai", ("sk-",), re.compile(r"(?<![A-Za-z0-9])sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,300}")
    ),
    SecretPattern("openai", ("sk-",), re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9]{40,64}(?![A-Za-z0-9])")),
    SecretPattern("anthropic", ("sk-ant-",), re.compile(r"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_-]{16,300}")),
    SecretPattern("openrouter", ("sk-or-",), re.compile(r"(?<![A-Za-z0-9])sk-or-[A-Za-z0-9_-]{16,300}")),
    SecretPattern("google", ("aiza",), re.compile(r"(?<![A-Za-z0-9_-])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")),
    SecretPattern("google", ("ya29.",), re.compile(r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{20,1000}")),
    SecretPattern("google", ("gocspx-",), re.compile(r"(?<![A-Za-z0-9])GOCSPX-[A-Za-z0-9_-]{20,60}")),
    SecretPattern("github", ("github_pat_",), re.compile(r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{22,255}")),
    SecretPattern("github", ("gh",), re.compile(r"gh[pousr]_[A-Za-z0-9]{36,255}")),
    SecretPattern("gitlab", ("glpat-",), re.compile(r"glpat-[A-Za-z0-9_.-]{20,255}")),
    SecretPattern("slack", ("xox", "xapp-"), re.compile(r"(?:xox[abcdeoprs]|xapp)-[A-Za-z0-9-]{10,255}", _CI)),
    SecretPattern(
        "stripe",
        ("k_live_", "k_test_", "whsec_"),
        re.compile(r"(?:[rsp]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,255}"),
        anchored=False,
    ),
    SecretPattern("huggingface", ("hf_",), re.compile(r"(?<![A-Za-z0-9_])hf_[A-Za-z]{30,60}(?![A-Za-z0-9])")),
    SecretPattern("npm", ("npm_",), re.compile(r"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])")),
    SecretPattern(
        "npm",
        (":_auth",),
        re.compile(r":_auth(?:Token)?\s{0,4}=\s{0,4}(?P<secret>[^\s\"'\\]{8,300})", _CI),
        _quoted_value,
    ),
    SecretPattern("pypi", ("pypi-age",), re.compile(r"pypi-AgE[A-Za-z0-9_-]{50,1000}")),
    SecretPattern("digitalocean", ("_v1_",), re.compile(r"do[por]_v1_[a-f0-9]{64}"), anchored=False),
    SecretPattern(
        "aws",
        ("aws",),
        re.compile(
            r"aws[A-Za-z_-]{0,20}(?:key|token)[A-Za-z_-]{0,20}\\{0,4}[\"']?\s{0,4}[:=]\s{0,4}\\{0,4}[\"']?"
            r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
            _CI,
        ),
    ),
    # The part before the first dot is the id of the bot, which is public.
    SecretPattern(
        "discord",
        (".",),
        re.compile(
            r"\.(?:(?<=[MNO][A-Za-z0-9_-]{23}\.)|(?<=[MNO][A-Za-z0-9_-]{25}\.))"
            r"[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])"
        ),
        anchored=False,
        hint=r"\.[a-z0-9_-]{6}\.[a-z0-9_-]{27}",
    ),
    SecretPattern(
        "assignment",
        _NAME_ANCHORS,
        re.compile(
            rf"{_NAME}\\{{0,4}}[\"']?\s{{0,4}}[:=]\s{{0,4}}\\{{0,4}}(?P<q>[\"'])"
            r"(?P<secret>[^\"'\\\s]{4,400})\\{0,4}(?P=q)",
            _CI,
        ),
        _quoted_value,
    ),
    SecretPattern(
        "assignment",
        _NAME_ANCHORS,
        re.compile(rf"{_NAME}(?:\s?=\s?|:[ \t]{{0,2}})(?P<secret>[^\s\"'\\,;&|]{{8,400}})", _CI),
        _bare_value,
    ),
    SecretPattern(
        "assignment",
        ("--password", "--token", "--api-key", "--secret"),
        re.compile(r"--(?:password|token|api-key|secret)[ =](?P<secret>[^\s\"'\\]{6,400})", _CI),
        _bare_value,
    ),
)
"""Ours come first: they know best where the secret begins and ends."""

# Of detect-secrets only pattern detectors, and of those the ones whose patterns are bounded and specific; its entropy
# and keyword detectors would blank ordinary identifiers.
_THIRD_PARTY: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("aws", "AWSKeyDetector", "aws", ("akia", "asia", "abia", "acca", "a3t")),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure", ("accountkey=",)),
    ("gitlab_token", "GitLabTokenDetector", "gitlab", ("gl", "gr1348941")),
    ("mailchimp", "MailchimpDetector", "mailchimp", ("-us",)),
    ("sendgrid", "SendGridDetector", "sendgrid", ("sg.",)),
    ("slack", "SlackDetector", "slack", ("hooks.slack",)),
    ("square_oauth", "SquareOAuthDetector", "square", ("sq0csp-",)),
    ("telegram_token", "TelegramBotTokenDetector", "telegram", (":aa",)),
    ("twilio", "TwilioKeyDetector", "twilio", ("ac", "sk")),
)


def third_party() -> tuple[SecretPattern, ...]:
    """The chosen patterns of detect-secrets, imported when first asked for: it pulls in an HTTP client."""
    from instar.memstore.bystanders import imported  # noqa: PLC0415  (a hook loads this file without our packages)

    found: list[SecretPattern] = []
    for module, detector, kind, anchors in _THIRD_PARTY:
        loaded = imported(f"detect_secrets.plugins.{module}")
        patterns = getattr(loaded, detector).denylist
        found += [SecretPattern(kind, anchors, pattern, anchored=False) for pattern in patterns]
    return tuple(found)


_SENSITIVE_NAME = re.compile(rf"{_NAME}\Z", _CI)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret by its place."""
    return _SENSITIVE_NAME.search(name[-80:]) is not None


def is_secret_value(value: str) -> bool:
    """Whether the string value of a sensitive field is to be replaced: it is no placeholder and no prose."""
    return len(value) >= 4 and _quoted_value(value)
