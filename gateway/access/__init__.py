"""Who is calling: static bearer tokens, API keys and HTTP Basic.

Part of the core, which checks every call itself, whatever its door (A2A 7.4, 13.1). Secrets are
kept as hashes and compared in constant time; no header value is ever logged or put into a text.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway import config
from gateway.call import AUTHORIZATION, SERVICE_PARAMETERS
from gateway.errors import UnauthenticatedError
from gateway.pb import (
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

ANONYMOUS = "anonymous"
"""The caller where no access is configured; nobody with credentials may have this name."""

BEARER = "bearerAuth"
BASIC = "basicAuth"
API_KEY = "apiKeyAuth"

MAX_CALLER_LENGTH = 256

_HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class Credential:
    """A bearer token or an API key and the caller that it stands for."""

    caller: str
    secret: str


@dataclass(frozen=True, slots=True)
class BasicCredential:
    """A user name and a password and the caller that they stand for."""

    caller: str
    username: str
    password: str


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who may call. A caller may have several credentials, of several kinds."""

    tokens: tuple[Credential, ...] = ()
    basic: tuple[BasicCredential, ...] = ()
    api_keys: tuple[Credential, ...] = ()
    api_key_header: str = "x-api-key"
    realm: str = "a2a"


def from_config(section: config.Access) -> "Access | None":
    """As configured; None where nobody needs credentials. Raises `AccessError`."""
    if not section.is_configured:
        return None
    return Access(
        AccessOptions(
            tokens=tuple(Credential(t.caller, t.token.reveal()) for t in section.tokens),
            basic=tuple(
                BasicCredential(b.caller or b.username, b.username, b.password.reveal())
                for b in section.basic
            ),
            api_keys=tuple(Credential(k.caller, k.key.reveal()) for k in section.api_keys),
            api_key_header=section.api_key_header,
        )
    )


class AccessError(ValueError):
    """The configuration cannot hold; the text names the entry and the fix, never a secret."""


@dataclass(frozen=True, slots=True)
class _Entry:
    digest: bytes
    caller: str


class Access:
    """Tells callers by their credentials. Raises `AccessError` for options that cannot hold."""

    def __init__(self, options: AccessOptions) -> None:
        _check(options)
        self._header = options.api_key_header.lower()
        self._bearer = _table("tokens", [(c.caller, c.secret) for c in options.tokens])
        self._api_keys = _table("api_keys", [(c.caller, c.secret) for c in options.api_keys])
        self._basic = _table(
            "basic", [(c.caller, f"{c.username}:{c.password}") for c in options.basic]
        )
        self.challenges = self._make_challenges(options.realm)
        """Values for `WWW-Authenticate`, one for each configured scheme (A2A 7.4)."""
        self.credential_names: tuple[str, ...] = (self._header,) if self._api_keys else ()
        """Lower-case metadata names that carry credentials, besides `authorization`."""

    def authenticate(self, metadata: Mapping[str, str]) -> tuple[str, str]:
        """The caller and the name of the security scheme that proved it.

        A credential of a configured kind decides alone: a wrong one is never made good by
        another. Raises `UnauthenticatedError`.
        """
        if header := metadata.get(AUTHORIZATION):
            kind, _, value = header.partition(" ")
            kind = kind.lower()
            if kind == "bearer" and self._bearer:
                return self._find(self._bearer, value.strip(), BEARER)
            if kind == "basic" and self._basic:
                return self._find(self._basic, _decode_basic(value.strip()), BASIC)
        if self._api_keys and (key := metadata.get(self._header)):
            return self._find(self._api_keys, key.strip(), API_KEY)
        raise UnauthenticatedError(
            "Credentials are missing; send those of a scheme that the agent card names",
            self.challenges,
        )

    def security_schemes(self) -> dict[str, SecurityScheme]:
        """What the agent card declares (A2A 4.5)."""
        schemes: dict[str, SecurityScheme] = {}
        if self._bearer:
            schemes[BEARER] = SecurityScheme(
                http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer")
            )
        if self._basic:
            schemes[BASIC] = SecurityScheme(
                http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Basic")
            )
        if self._api_keys:
            schemes[API_KEY] = SecurityScheme(
                api_key_security_scheme=APIKeySecurityScheme(location="header", name=self._header)
            )
        return schemes

    def security_requirements(self) -> list[SecurityRequirement]:
        """Any one of the schemes is enough."""
        return [
            SecurityRequirement(schemes={name: StringList()}) for name in self.security_schemes()
        ]

    def _find(
        self, table: Mapping[bytes, _Entry], secret: str | None, scheme: str
    ) -> tuple[str, str]:
        if secret:
            digest = _digest(secret)
            # the lookup goes by hash, so its timing says nothing about any secret
            entry = table.get(digest)
            if entry is not None and hmac.compare_digest(digest, entry.digest):
                return entry.caller, scheme
        raise UnauthenticatedError("Credentials are not valid", self.challenges)

    def _make_challenges(self, realm: str) -> tuple[str, ...]:
        # no blank after a comma within one challenge: lists of challenges are joined by ", "
        challenges = []
        if self._bearer:
            challenges.append(f'Bearer realm="{realm}"')
        if self._basic:
            challenges.append(f'Basic realm="{realm}",charset="UTF-8"')
        if self._api_keys:
            challenges.append(f'ApiKey realm="{realm}",header="{self._header}"')
        return tuple(challenges)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _decode_basic(value: str) -> str | None:
    """`user:password` (RFC 7617); None for anything else."""
    try:
        text = base64.b64decode(value.encode("ascii"), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeError):
        return None
    return text if ":" in text else None


def _table(section: str, entries: list[tuple[str, str]]) -> dict[bytes, _Entry]:
    table: dict[bytes, _Entry] = {}
    for index, (caller, secret) in enumerate(entries):
        digest = _digest(secret)
        known = table.setdefault(digest, _Entry(digest, caller))
        if known.caller != caller:
            raise AccessError(
                f"access.{section}[{index}]: the same secret is given to {known.caller!r} and to "
                f"{caller!r}; give each caller its own"
            )
    return table


def _check(options: AccessOptions) -> None:
    if not (options.tokens or options.basic or options.api_keys):
        raise AccessError("access: no credentials; name at least one, or leave the section out")
    for section in ("tokens", "api_keys", "basic"):
        for index, entry in enumerate(getattr(options, section)):
            _check_entry(f"access.{section}[{index}]", entry)
    name = options.api_key_header.lower()
    if not _HEADER_NAME.fullmatch(name) or name.startswith("grpc-") or name.endswith("-bin"):
        raise AccessError(
            f"access.api_key_header: {options.api_key_header!r} cannot be a header name at every "
            "door; use letters, digits and hyphens, no leading grpc- and no trailing -bin"
        )
    if name in SERVICE_PARAMETERS:
        raise AccessError(
            f"access.api_key_header: {name!r} already has a meaning; choose another, as x-api-key"
        )
    if not options.realm.isascii() or not options.realm.isprintable() or '"' in options.realm:
        raise AccessError("access.realm: use printable ASCII characters without quotation marks")


def _check_entry(place: str, entry: Credential | BasicCredential) -> None:
    caller = entry.caller
    if not caller or caller == ANONYMOUS or caller != caller.strip():
        raise AccessError(
            f"{place}.caller: {caller!r} cannot name a caller; give a name of its own, not empty, "
            f"not {ANONYMOUS!r}, without blanks around it"
        )
    if len(caller) > MAX_CALLER_LENGTH or not caller.isprintable():
        raise AccessError(f"{place}.caller: use at most {MAX_CALLER_LENGTH} printable characters")
    if isinstance(entry, Credential):
        if not entry.secret or entry.secret != entry.secret.strip():
            raise AccessError(f"{place}: the secret is empty or has blanks around it")
    elif not entry.username or ":" in entry.username or not entry.password:
        raise AccessError(f"{place}: username (without a colon) and password must not be empty")
