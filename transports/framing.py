"""Bytes of a stream to frames and back: JSON lines, or blocks behind a `Content-Length` header.

Framing layer, no I/O. Which of the two a peer speaks is seen from its first byte that counts and
holds for the whole connection: `C` or `c` begins a header (the Language Server Protocol, base
protocol), anything else is a line (JSON texts never begin with a letter that is no literal). A
byte order mark at the very start, and white space before a frame, count for nothing.

What is wrong with one frame harms no other: it gives one `BadFrame`, and reading goes on with the
next frame that can be found. docs/bindings/framed-session.md has the rules.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

MAX_HEADER_BYTES = 4096
"""Of one header block, its empty line included."""

_MARK = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"

# one that every client sends: nothing but the length
_plain_header = re.compile(rb"(?i)content-length:[ \t]{0,8}([0-9]{1,15})[ \t]{0,8}\r\n\r\n")
_header_end = re.compile(rb"\n\r?\n")
_field = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*\r?")
# A raw line end cannot stand in a JSON string: this is never found within a text on one line.
_next_header = re.compile(rb"(?i)content-length:[ \t]{0,8}[0-9]{1,15}[ \t]{0,8}\r?\n")
_NEXT_HEADER_BYTES = 64
"""The longest that is looked for by the expression above."""
_charset = re.compile(r"(?i);\s*charset\s*=\s*\"?([^\s;\"]*)")


class Framing(Enum):
    """How frames are told apart."""

    LINES = "lines"
    HEADERS = "headers"


class BadFrame(NamedTuple):
    """What could not be read as a frame. `reason` is a sentence without its full stop, and holds
    nothing of the bytes. `is_too_large`: it was a frame, beyond the limit."""

    reason: str
    is_too_large: bool = False


Item = bytes | BadFrame


def encode(framing: Framing, payloads: Iterable[bytes]) -> bytes:
    """Payloads as frames. With `LINES` none may hold a line end."""
    if framing is Framing.LINES:
        return b"".join([b"%b\n" % payload for payload in payloads])
    return b"".join([b"Content-Length: %d\r\n\r\n%b" % (len(p), p) for p in payloads])


class Decoder:
    """Frames out of the bytes of one peer, cut anywhere. `framing` is known once the first byte
    that counts is there, or from the start where it is given."""

    def __init__(self, limit: int, framing: Framing | None = None):
        self.limit = limit
        """Bytes of the largest payload; may be changed at any time."""
        self.framing = framing
        self._is_new = True
        """Nothing has come yet, or only a part of a byte order mark."""
        self._buffer = bytearray()
        """What has come of the frame that is not complete; never more than the limit and one
        header."""
        self._skip = 0
        """Bytes of a refused body that are still to come."""
        self._is_lost = False
        """The rest of a line, or all before the next header, is being dropped."""
        self._body = -1
        """Bytes of the body whose header was read, or -1."""

    def feed(self, data: bytes) -> list[Item]:
        """Take bytes; give what they complete, in order."""
        if self._is_new or self.framing is None:
            data = self._begin(data)
        if self.framing is Framing.LINES:
            return self._feed_lines(data)
        return self._feed_headers(data) if self.framing is Framing.HEADERS else []

    def finish(self) -> list[Item]:
        """The peer sends no more: give what its last bytes mean. A last line needs no end."""
        rest, self._buffer = bytes(self._buffer), bytearray()
        if self.framing is Framing.LINES:
            return [] if self._is_lost or not rest.strip() else [_checked(rest)]
        if self._skip or self._body >= 0 or (rest.strip() and not self._is_lost):
            return [BadFrame("the input ended within a frame")]
        return []

    def _begin(self, data: bytes) -> bytes:
        """Look at the first bytes; gives what is to be read by the framing."""
        if self._is_new:
            data = bytes(self._buffer) + data
            self._buffer.clear()
            if len(data) < len(_MARK) and _MARK.startswith(data):
                self._buffer += data
                return b""
            self._is_new = False
            data = data.removeprefix(_MARK)
        if self.framing is None:
            data = data.lstrip(_SPACE)
            if data:
                self.framing = Framing.HEADERS if data[0] in b"Cc" else Framing.LINES
        return data

    # Lines

    def _feed_lines(self, data: bytes) -> list[Item]:
        lines = data.split(b"\n")
        rest = lines.pop()
        items: list[Item] = []
        if lines:
            first = self._end_line(lines[0])
            if first is not None:
                items.append(first)
            limit = self.limit
            for line in lines[1:]:
                if len(line) > limit:
                    items.append(_too_large(limit))
                elif line and not line.isspace():
                    items.append(line if line.isascii() else _checked(line))
        if rest and not self._is_lost:
            self._buffer += rest
            if len(self._buffer) > self.limit:
                self._buffer = bytearray()
                self._is_lost = True
                items.append(_too_large(self.limit))
        return items

    def _end_line(self, end: bytes) -> Item | None:
        """The line that began earlier, now that its end is there."""
        if self._is_lost:
            self._is_lost = False  # it was refused already
            return None
        line = end
        if self._buffer:
            self._buffer += end
            line = bytes(self._buffer)
            self._buffer = bytearray()
        if len(line) > self.limit:
            return _too_large(self.limit)
        if not line or line.isspace():
            return None
        return _checked(line)

    # Headers

    def _feed_headers(self, data: bytes) -> list[Item]:
        if self._skip:
            dropped = min(self._skip, len(data))
            self._skip -= dropped
            data = data[dropped:]
        if not self._buffer:
            items, used = self._read_blocks(data)
            self._buffer += data[used:]
            return items
        self._buffer += data
        if len(self._buffer) < self._body:
            return []
        items, used = self._read_blocks(self._buffer)
        del self._buffer[:used]
        return items

    def _read_blocks(self, data: bytes | bytearray) -> tuple[list[Item], int]:
        """All that is complete in `data`, and how much of it is done with."""
        items: list[Item] = []
        place, size = 0, len(data)
        while place < size:
            if self._body >= 0:
                end = place + self._body
                if end > size:
                    break
                items.append(_checked(bytes(data[place:end])))
                place, self._body = end, -1
                continue
            if self._is_lost:
                found = _next_header.search(data, place)
                if found is None:
                    place = max(place, size - _NEXT_HEADER_BYTES)
                    break
                place, self._is_lost = found.start(), False
            after = self._read_header(data, place, items)
            if after < 0:
                break
            place = after
        if self._body == 0 and place == size:
            items.append(b"")
            self._body = -1
        return items, min(place, size)

    def _read_header(self, data: bytes | bytearray, place: int, items: list[Item]) -> int:
        """Read one header block; gives where it ends, -1 where more of it has to come."""
        plain = _plain_header.match(data, place)
        if plain is not None:
            return self._begin_body(int(plain[1]), plain.end(), len(data), items)
        size = len(data)
        while place < size and data[place] in _SPACE:
            place += 1
        end = _header_end.search(data, place, place + MAX_HEADER_BYTES)
        if end is None and size - place <= MAX_HEADER_BYTES:
            return -1 if place < size else size
        if end is None:
            return self._lose(
                f"the header is longer than {MAX_HEADER_BYTES} bytes", place + 1, items
            )
        lines = bytes(data[place : end.start()]).split(b"\n")
        fields = [_field.fullmatch(line) for line in lines]
        if None in fields:
            # a stray line; the header may begin behind it
            return self._lose("a header line is not of the form `Name: value`", place + 1, items)
        length = _read_fields([(f[1].lower(), f[2]) for f in fields if f is not None])
        if isinstance(length, str):
            return self._lose(length, end.end(), items)
        return self._begin_body(length, end.end(), size, items)

    def _lose(self, reason: str, place: int, items: list[Item]) -> int:
        """Nobody knows where the next frame begins: look for it from `place` on."""
        items.append(BadFrame(reason))
        self._is_lost = True
        return place

    def _begin_body(self, length: int, place: int, size: int, items: list[Item]) -> int:
        if length <= self.limit:
            self._body = length
            return place
        items.append(_too_large(self.limit))
        dropped = min(length, size - place)
        self._skip = length - dropped
        return place + dropped


def _read_fields(fields: list[tuple[bytes, bytes]]) -> int | str:
    """The length that a header block tells, or what is wrong with it."""
    length: int | None = None
    for name, value in fields:
        if name == b"content-length":
            if not (value.isdigit() and len(value) <= 15) or length not in (None, int(value)):
                return "Content-Length must be one whole number of bytes"
            length = int(value)
        elif name == b"content-type":
            charset = _charset.search(value.decode("latin-1"))
            if charset is not None and charset[1].lower() not in ("utf-8", "utf8"):
                return "the charset of a frame must be utf-8"
    return "a header without Content-Length" if length is None else length


def _checked(payload: bytes) -> Item:
    if payload.isascii():
        return payload
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        return BadFrame(f"byte {error.start} is not UTF-8")
    return payload


def _too_large(limit: int) -> BadFrame:
    return BadFrame(f"the frame is larger than {limit} bytes", is_too_large=True)
