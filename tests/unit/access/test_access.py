"""Who is calling."""

import base64
import logging

import pytest

from gateway import config
from gateway.access import (
    Access,
    AccessError,
    AccessOptions,
    BasicCredential,
    Credential,
    from_config,
)
from gateway.errors import UnauthenticatedError, judge

TOKEN = "token-of-alice-ünicode"


def make_access() -> Access:
    return Access(
        AccessOptions(
            tokens=(Credential("alice", TOKEN), Credential("alice", "second")),
            basic=(BasicCredential("bob", "bob", "pa:ss"),),
            api_keys=(Credential("carol", "key-of-carol"),),
        )
    )


def basic(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return "Basic " + base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    ("metadata", "caller"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, ("alice", "bearerAuth")),
        ({"authorization": f"bEARER   {TOKEN} "}, ("alice", "bearerAuth")),
        ({"authorization": "Bearer second"}, ("alice", "bearerAuth")),
        ({"authorization": basic("bob:pa:ss")}, ("bob", "basicAuth")),
        ({"x-api-key": "key-of-carol"}, ("carol", "apiKeyAuth")),
        # a scheme that is not configured says nothing about the caller
        ({"authorization": "Digest x", "x-api-key": "key-of-carol"}, ("carol", "apiKeyAuth")),
    ],
)
def test_knows_callers(metadata: dict[str, str], caller: tuple[str, str]) -> None:
    """S13, S14, S15: each configured scheme proves its caller."""
    assert make_access().authenticate(metadata) == caller


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer wrong"},
        {"authorization": TOKEN},
        {"authorization": f"Bearer {TOKEN},Bearer {TOKEN}"},
        {"authorization": "Bearer key-of-carol"},
        {"authorization": basic("bob:wrong")},
        {"authorization": basic("bob")},
        {"authorization": basic("eve:pa:ss")},
        {"authorization": basic(b"bob:\xff\xfe")},
        {"authorization": "Basic @@@@"},
        {"authorization": "Basic schön"},
        {"authorization": "Bearer \ud83d"},
        {"x-api-key": ""},
        {"x-api-key": "wrong"},
        {"x-api-key": TOKEN},
        # a wrong credential is not made good by another
        {"authorization": "Bearer wrong", "x-api-key": "key-of-carol"},
    ],
)
def test_refuses_everybody_else(metadata: dict[str, str]) -> None:
    """R27, AU06: missing, malformed and foreign credentials are all unauthenticated."""
    with pytest.raises(UnauthenticatedError) as caught:
        make_access().authenticate(metadata)
    assert caught.value.challenges == make_access().challenges


def test_says_nothing_of_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    """R30: no credential in a text or in the log."""
    caplog.set_level(logging.DEBUG)
    for value in ("Bearer my-secret-value", basic("bob:my-secret-value")):
        with pytest.raises(UnauthenticatedError) as caught:
            make_access().authenticate({"authorization": value})
        assert "my-secret-value" not in str(judge(caught.value))
    assert "my-secret-value" not in caplog.text


def test_challenges_survive_the_wire() -> None:
    """D19: one challenge for each scheme, and the list is read back as it was."""
    from gateway.errors import Failure

    with pytest.raises(UnauthenticatedError) as caught:
        make_access().authenticate({})
    failure = judge(caught.value)
    assert [c.split()[0] for c in failure.challenges] == ["Bearer", "Basic", "ApiKey"]
    assert Failure.from_status(failure.to_status()).challenges == failure.challenges


def test_declares_what_it_takes() -> None:
    """S13, S14, S15: the card's schemes, any one of which is enough."""
    access = make_access()
    schemes = access.security_schemes()
    assert set(schemes) == {"bearerAuth", "basicAuth", "apiKeyAuth"}
    assert schemes["bearerAuth"].http_auth_security_scheme.scheme == "Bearer"
    assert schemes["apiKeyAuth"].api_key_security_scheme.name == "x-api-key"
    assert schemes["apiKeyAuth"].api_key_security_scheme.location == "header"
    assert [list(r.schemes) for r in access.security_requirements()] == [[n] for n in schemes]
    assert access.credential_names == ("x-api-key",)


def test_declares_only_what_is_configured() -> None:
    """S14, S15: no scheme that nobody can use."""
    access = Access(AccessOptions(tokens=(Credential("alice", TOKEN),)))
    assert set(access.security_schemes()) == {"bearerAuth"}
    assert access.credential_names == ()
    assert len(access.challenges) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (AccessOptions(), "no credentials"),
        (AccessOptions(tokens=(Credential("", "t"),)), r"access.tokens\[0\].caller"),
        (AccessOptions(tokens=(Credential("anonymous", "t"),)), r"access.tokens\[0\].caller"),
        (AccessOptions(tokens=(Credential(" a", "t"),)), "blanks"),
        (AccessOptions(api_keys=(Credential("a\n", "t"),)), r"access.api_keys\[0\]"),
        (AccessOptions(tokens=(Credential("a\x00b", "t"),)), "printable"),
        (AccessOptions(tokens=(Credential("a", ""),)), "empty"),
        (AccessOptions(basic=(BasicCredential("a", "x:y", "p"),)), "colon"),
        (
            AccessOptions(tokens=(Credential("a", "same"), Credential("b", "same"))),
            r"tokens\[1\].*'a'.*'b'",
        ),
        (
            AccessOptions(api_keys=(Credential("a", "t"),), api_key_header="authorization"),
            "already has a meaning",
        ),
        (AccessOptions(api_keys=(Credential("a", "t"),), api_key_header="x key"), "header name"),
        (AccessOptions(api_keys=(Credential("a", "t"),), api_key_header="key-bin"), "-bin"),
        (AccessOptions(tokens=(Credential("a", "t"),), realm='"'), "realm"),
    ],
)
def test_refuses_options_that_cannot_hold(options: AccessOptions, words: str) -> None:
    """AU06: no caller without a name of its own, none called anonymous."""
    with pytest.raises(AccessError, match=words) as caught:
        Access(options)
    assert "same'" not in str(caught.value).replace("the same secret", "")


def test_from_configuration() -> None:
    """Each section becomes credentials; a Basic user is its own caller."""
    secret = config.Secret
    section = config.Access(
        tokens=(config.Token(caller="alice", token=secret("t")),),
        api_keys=(config.ApiKey(caller="carol", key=secret("k")),),
        api_key_header="X-Key",
        basic=(config.Basic(username="bob", password=secret("p")),),
    )
    access = from_config(section)
    assert access is not None
    assert access.authenticate({"authorization": "Bearer t"})[0] == "alice"
    assert access.authenticate({"x-key": "k"})[0] == "carol"
    assert access.authenticate({"authorization": basic("bob:p")})[0] == "bob"
    assert from_config(config.Access()) is None
