"""Reading agent cards, from servers of every kind."""

import json
import time

import httpx
import pytest

from gateway.pb import AgentCard
from tests.conftest import run
from tests.doubles.web import Asked, Said, Web, silent, web
from transports.http import discovery
from transports.http.discovery import PATH, CardsInMemory, places, read_card
from transports.wire import ConnectError, UnreachableError

ENTRY = {"url": "http://x/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
CARD = json.dumps({"name": "one", "supportedInterfaces": [ENTRY], "later": {"field": 1}}).encode()


async def read(url: str, cards: CardsInMemory | None = None) -> AgentCard:
    """The card at a URL."""
    async with httpx.AsyncClient(trust_env=False) as http:
        return await read_card(http, url, cards)


def refusal(said: Said, path: str = "") -> str:
    """Why what is answered is no card."""

    async def main() -> str:
        async with web(lambda asked: said) as server:
            with pytest.raises(ConnectError) as caught:
                await read(server.url + path)
            return str(caught.value)

    return run(main())


def test_where_a_card_can_be() -> None:
    """S155: below the URL, at the root of its host, or where the URL itself says."""
    assert list(places("https://h:1")) == [f"https://h:1{PATH}"]
    assert list(places("https://h/a/b/?q#f")) == [f"https://h/a/b{PATH}", f"https://h{PATH}"]
    assert list(places("https://h/a/card.json")) == ["https://h/a/card.json"]


def test_the_next_place() -> None:
    """S155: a card that is not below the URL is looked for at the root."""

    async def main() -> list[str]:
        def answer(asked: Asked) -> Said:
            return Said(CARD) if asked.path == PATH else Said(status=404)

        async with web(answer) as server:
            assert (await read(f"{server.url}/agents/one")).name == "one"
            return [asked.path for asked in server.asked]

    assert run(main()) == [f"/agents/one{PATH}", PATH]


class TestCaching:
    """R32, S159: what the server says about it is obeyed."""

    @staticmethod
    def twice(headers: dict[str, str], *, wait: bool = False) -> Web:
        """Read a card twice from a server that sends these headers."""

        async def main() -> Web:
            def answer(asked: Asked) -> Said:
                if asked.headers.get("if-none-match") == headers.get("etag", "none"):
                    return Said(status=304, headers=headers)
                return Said(CARD, headers=headers)

            async with web(answer) as server:
                cards = CardsInMemory()
                for _ in range(2):
                    assert (await read(server.url, cards)).name == "one"
                    kept = cards.load(server.url)
                    assert kept is not None
                    if wait:
                        kept.fresh_until = time.time() - 1
                return server

        return run(main())

    def test_fresh(self) -> None:
        """R32, S159: max-age says how long it is not asked for."""
        server = self.twice({"cache-control": "public, max-age=60", "etag": '"a"'})
        assert len(server.asked) == 1

    def test_stale(self) -> None:
        """R32, S159: afterwards with its tag, and 304 is enough."""
        server = self.twice({"cache-control": "max-age=60", "etag": '"a"'}, wait=True)
        assert [asked.headers.get("if-none-match") for asked in server.asked] == [None, '"a"']

    @pytest.mark.parametrize("control", ["", "no-store", "no-cache, max-age=60", "max-age=x"])
    def test_not_to_be_kept(self, control: str) -> None:
        """R32: then it is asked for each time."""
        assert len(self.twice({"cache-control": control}).asked) == 2


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said(status=404), "where http://127.0.0.1:"),
        (Said(status=500), "HTTP 500"),
        (Said(status=401), "HTTP 401"),
        (Said(status=302, headers={"location": "http://evil/"}), "redirects to http://evil/"),
        (Said(b"<html>"), "is no agent card"),
        (Said(b"[1]"), "is no agent card"),
        (Said(b'{"name": 1, "supportedInterfaces": []}'), "name"),
        (Said(b'{"name": "x"}'), "has no supportedInterfaces"),
        (Said(b'{"name": "x", "url": "http://x"}'), "A2A 0.3"),
        (Said(b" " * (5 << 20)), "is larger than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_card(said: Said, words: str) -> None:
    """S159: each with its reason; a redirection is not followed."""
    assert words in refusal(said)


def test_a_missing_card_says_how_to_do_without() -> None:
    """The URL may be an interface itself."""
    assert "+jsonrpc://127.0.0.1:" in refusal(Said(status=404), "/rpc")


def test_a_card_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly a server sends, nobody waits for ever."""
    monkeypatch.setattr(discovery, "CARD_SECONDS", 0.1)

    async def main() -> None:
        async with silent() as url:
            with pytest.raises(UnreachableError, match=r"was not read within 0\.1 s"):
                await read(url)

    run(main())


def test_nobody_there() -> None:
    """Told apart, so that it can be tried again."""

    async def main() -> None:
        async with web(lambda asked: Said()) as server:
            url = server.url
        with pytest.raises(UnreachableError, match="Connection refused"):
            await read(url)

    run(main())
