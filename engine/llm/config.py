"""Which model plays which role: the `[models]` table of an `instar.toml`, and what the environment adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from instar.engine.llm.errors import NotConfigured

Limiter = Callable[[], AbstractContextManager[object]]
"""Entered around each attempt to ask a model; whoever runs the tasks decides how many may be inside."""
Role = Literal["distill", "reflect", "specify", "code", "judge"]
ROLES: tuple[Role, ...] = get_args(Role)
OPENAI = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4.1-mini"
MINIMUM = 256
"""Tokens of an answer below which no role can do its work."""


class _Choice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("base_url", "key", check_fields=False)
    @classmethod
    def _no_secret(cls, value: str | None) -> str | None:
        if value and "@" in value:
            raise ValueError("a key does not belong into an address; name an environment variable in `key`")
        return value


class RoleChoice(_Choice):
    """What differs for one role: a `[models.ROLE]` table. None takes what `[models]` says."""

    model: str | None = None
    base_url: str | None = None
    key: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    context_tokens: int | None = Field(default=None, ge=1_000)
    output_tokens: int | None = Field(default=None, ge=MINIMUM)
    timeout_seconds: float | None = Field(default=None, gt=0)
    input_price: float | None = Field(default=None, ge=0)
    output_price: float | None = Field(default=None, ge=0)


class ModelSettings(_Choice):
    """The `[models]` table. Prices are per million tokens, in whatever currency the caps are in."""

    model: str = DEFAULT_MODEL
    base_url: str = ""
    """An OpenAI-compatible endpoint; empty takes OPENAI_BASE_URL, and with only a key that of OpenAI."""
    key: str = Field(default="OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The environment variable that holds the key. The key itself stands in no file."""
    context_tokens: int = Field(default=16_000, ge=1_000)
    output_tokens: int = Field(default=4_000, ge=MINIMUM)
    timeout_seconds: float = Field(default=120.0, gt=0)
    parallel: int = Field(default=4, ge=1, le=64)
    """Calls at once, over all processes of a home."""
    together: int = Field(default=8, ge=1, le=40)
    """Short sessions that are read with one request."""
    retries: int = Field(default=4, ge=0, le=10)
    longest_wait: float = Field(default=60.0, ge=0)
    """Seconds that a server may ask to wait before a call is given up."""
    input_price: float = Field(default=0.0, ge=0)
    output_price: float = Field(default=0.0, ge=0)
    run_tokens: int = Field(default=2_000_000, ge=0)
    run_money: float | None = Field(default=None, ge=0)
    night_tokens: int = Field(default=5_000_000, ge=0)
    """Over any 24 hours."""
    night_money: float | None = Field(default=None, ge=0)
    distill: RoleChoice = RoleChoice()
    reflect: RoleChoice = RoleChoice()
    specify: RoleChoice = RoleChoice()
    code: RoleChoice = RoleChoice()
    judge: RoleChoice = RoleChoice()

    def choice(self, role: Role) -> RoleChoice:
        """The table of one role."""
        found = getattr(self, role)
        assert isinstance(found, RoleChoice)  # noqa: S101 — every role is a field above
        return found


@dataclass(frozen=True, slots=True)
class Model:
    """One role with everything settled. `key` is a secret: it appears in no repr."""

    role: Role
    name: str
    base_url: str
    key: str
    context_tokens: int
    output_tokens: int
    timeout_seconds: float
    retries: int
    longest_wait: float
    input_price: float
    output_price: float

    def __repr__(self) -> str:
        return f"Model({self.role!r}, {self.name!r}, {self.base_url!r})"

    @property
    def host(self) -> str:
        """Host and port of the endpoint, for messages."""
        return urlsplit(self.base_url).netloc


T = TypeVar("T")


def _either(mine: T | None, common: T) -> T:
    return common if mine is None else mine


def configured(settings: ModelSettings, environment: Mapping[str, str]) -> bool:
    """Whether there is an endpoint for every role; without one nothing is ever sent anywhere."""
    try:
        for role in ROLES:
            model_for(settings, role, environment)
    except NotConfigured:
        return False
    return True


def model_for(settings: ModelSettings, role: Role, environment: Mapping[str, str], *, offline: bool = False) -> Model:
    """Settle one role: its own table, then `[models]`, then the environment.

    `offline` settles it without an endpoint, for a replay or a handoff.

    Raises:
        NotConfigured: there is neither an address nor a key.
    """
    own = settings.choice(role)

    variable = _either(own.key, settings.key)
    key = environment.get(variable, "")
    address = _either(own.base_url, settings.base_url) or environment.get("OPENAI_BASE_URL", "")
    if not address and key:
        address = OPENAI
    if not address and not offline:
        raise NotConfigured(role, f"set {variable}, or OPENAI_BASE_URL, or base_url under [models] in instar.toml")
    if address and urlsplit(address).scheme not in {"http", "https"}:
        raise NotConfigured(role, f"{address!r} is no http or https address")
    return Model(
        role=role,
        name=_either(own.model, settings.model),
        base_url=address,
        key=key,
        context_tokens=_either(own.context_tokens, settings.context_tokens),
        output_tokens=_either(own.output_tokens, settings.output_tokens),
        timeout_seconds=_either(own.timeout_seconds, settings.timeout_seconds),
        retries=settings.retries,
        longest_wait=settings.longest_wait,
        input_price=_either(own.input_price, settings.input_price),
        output_price=_either(own.output_price, settings.output_price),
    )
