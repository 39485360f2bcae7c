"""A page that requests details from a process: a server for this machine alone, at an address with a random part.

Whoever does not know the address gets nothing: other programs of this machine, and the pages of other sites, which a
browser would let ask. A name that an attacker's site resolves to this machine is refused by the Host of the request.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn, SupportsIndex
from urllib.parse import parse_qs, urlsplit

import numpy as np

from regard import _check
from regard.show.page.document import Page
from regard.show.page.pyramid import LongAttention, long_section

__all__ = ["Server", "serve"]

_SIDE = 512  # blocks on each side of a part, at most
_HTML, _NUMBERS = "text/html; charset=utf-8", "application/octet-stream"
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Server(ThreadingHTTPServer):
    """Serves a page of long attention, and the parts that it requests, on this machine.

    Parameters
    ----------
    attention : LongAttention
        The attention.
    query_labels, key_labels : sequence of str, optional
        n and m names.
    title : str
        The title of the page.
    port : int
        The port; by default any that is free.

    Examples
    --------
    >>> with Server(LongAttention(np.zeros((4, 1)), np.zeros((4, 1)))) as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True

    def __init__(
        self,
        attention: LongAttention,
        query_labels: Sequence[str] | None = None,
        key_labels: Sequence[str] | None = None,
        *,
        title: str = "Attention",
        port: int = 0,
    ) -> None:
        section = long_section(attention, query_labels, key_labels, served=True)
        self.page = Page([section], title=title).document(connect="'self'").encode("utf-8")
        self.attention, self.token = attention, secrets.token_urlsafe(32)
        super().__init__(("127.0.0.1", port), _Handler)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        hint = "copy its attention, and serve that"
        _check.fail("a server has an open port and can't be copied or pickled", hint=hint, kind=TypeError)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts by which this machine may call itself."""
        return tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    def answer(self, path: str, query: Mapping[str, int]) -> bytes:
        """Return float32 numbers: a row, or the largest and then the mean weights of the blocks of a part."""
        attention = self.attention
        head = _within("head", query["head"], 0, attention.heads - 1)
        if path == "row":
            row = _within("row", query["row"], 0, attention.n - 1)
            return _bytes(attention.rows(head, row, row + 1))
        rows, columns = (
            slice(
                _within(start, query[start], 0, length - 1),
                _within(stop, query[stop], query[start] + 1, length),
            )
            for start, stop, length in (("top", "bottom", attention.n), ("left", "right", attention.m))
        )
        return _bytes(np.stack(attention.summary(head, _SIDE, rows, columns)))


class _Refused(Exception):
    """A request that gets no answer, with the status that it gets."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """Answers GET for the page and its parts."""

    server: Server
    server_version, sys_version = "regard", ""
    timeout = 30  # seconds, of a connection without a request

    def do_GET(self) -> None:
        """Answer a request."""
        try:
            kind, content = self._answer()
        except _Refused as refused:
            self._send(refused.status, "text/plain", refused.status.phrase.encode())
        else:
            self._send(HTTPStatus.OK, kind, content)

    def _answer(self) -> tuple[str, bytes]:
        address = urlsplit(self.path)
        _, token, *rest = address.path.split("/")
        hosts = self.server.hosts()
        own_origin = self.headers.get("Origin") in (None, *(f"http://{host}" for host in hosts))
        if self.headers.get("Host") not in hosts or not own_origin:
            raise _Refused(HTTPStatus.FORBIDDEN)
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            raise _Refused(HTTPStatus.NOT_FOUND)
        if rest == [""]:
            return _HTML, self.server.page
        if rest not in (["row"], ["part"]):
            raise _Refused(HTTPStatus.NOT_FOUND)
        try:
            query = {name: int(values[0]) for name, values in parse_qs(address.query).items()}
            return _NUMBERS, self.server.answer(rest[0], query)
        except (KeyError, ValueError):
            raise _Refused(HTTPStatus.BAD_REQUEST) from None

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | {"Content-Type": kind, "Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not understood; of a method that is none here, too."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self.close_connection = True
        self._send(status, "text/plain", status.phrase.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the address is secret."""


def _within(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}. Got {value} instead.")
    return value


def _bytes(array: np.ndarray[Any, Any]) -> bytes:
    return np.ascontiguousarray(array, "<f4").tobytes()


def serve(
    attention: LongAttention,
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    *,
    title: str = "Attention",
    announce: Callable[[str], object] = print,
) -> None:
    """Serve a page of long attention until Ctrl-C.

    Parameters
    ----------
    attention : LongAttention
        The attention.
    query_labels, key_labels : sequence of str, optional
        n and m names.
    title : str
        The title of the page.
    announce : callable
        What is called with a line that has the address.

    Raises
    ------
    OSError
        If no port is free.

    Examples
    --------
    >>> def stop(line):
    ...     raise RuntimeError("stopped")
    >>> serve(LongAttention(np.zeros((4, 1)), np.zeros((4, 1))), announce=stop)
    Traceback (most recent call last):
    RuntimeError: stopped
    """
    with Server(attention, query_labels, key_labels, title=title) as server:
        announce(f"open {server.address} in a browser of this machine; Ctrl-C ends it")
        server.serve_forever()
