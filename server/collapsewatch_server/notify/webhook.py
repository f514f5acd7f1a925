"""Signed JSON to an address of the user's choice."""

import base64
import re
import time
from contextlib import closing
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from urllib.parse import unquote, urlsplit

import httpx

from collapsewatch_server.notify import signing
from collapsewatch_server.notify.guard import OutgoingGuard, Refused, Unreachable
from collapsewatch_server.notify.outcome import ANSWER_CHARS, Outcome, cut, failed, sent, without
from collapsewatch_server.notify.transport import Deadline, GuardedTransport

SECONDS = 10.0
"""How long a receiver may take, from the look-up of its name to the start of its answer's body."""
_ANSWER_BYTES = 4 * ANSWER_CHARS
_MAX_URL_CHARS = 2000
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")
# The same message would be refused again; 404 is not among them, because a receiver that is being replaced
# answers so for a while.
_HOPELESS = frozenset({400, 401, 403, 405, 410, 411, 413, 414, 415, 422})


def check_url(url: str, guard: OutgoingGuard) -> None:
    """Comes back if messages may be sent to the address as it is now.

    Raises:
        ValueError: it is no address of HTTP.
        Refused: it leads into the host's own network.
        Unreachable: its host's name leads nowhere.
    """
    host, port = _host_of(url)
    guard.addresses_of(host, port)


def masked(url: str) -> str:
    """Scheme and host of the address; what follows may be a secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/…"


def send(
    guard: OutgoingGuard,
    *,
    url: str,
    secret: str,
    delivery_id: str,
    body: bytes,
    seconds: float = SECONDS,
) -> Outcome:
    """What became of one attempt to post the body."""
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"collapsewatch/{version('collapsewatch')}",
        **signing.headers(secret, timestamp, body, delivery_id),
    }
    hidden = (secret, *secrets_of(url))
    try:
        _host_of(url)
        headers |= _credentials(url)
        # By the transport itself: a client would log the address, follow the environment's proxies, and
        # redirects if it was told so.
        with GuardedTransport(guard, Deadline(seconds)) as transport:
            response = transport.handle_request(httpx.Request("POST", url, content=body, headers=headers))
            with closing(response):
                return _judged(response, _start_of(response), hidden)
    except (Refused, ValueError) as error:
        return failed(without(str(error), hidden), may_retry=False)
    except Unreachable as error:
        return failed(without(str(error), hidden))
    except httpx.TimeoutException:
        return failed(f"no answer within {seconds:g} s")
    except httpx.TransportError as error:
        return failed(without(f"no answer: {error}", hidden))


def secrets_of(url: str) -> tuple[str, ...]:
    """The parts of an address that are not to be seen in anything that is kept."""
    parts = urlsplit(url)
    found = {url, parts.query, parts.fragment, parts.password or "", parts.username or ""}
    found |= {part for part in (parts.path, *parts.path.split("/")) if len(part) >= 4}
    return tuple(found | {unquote(one) for one in found})


def _host_of(url: str) -> tuple[str, int]:
    if len(url) > _MAX_URL_CHARS:
        raise ValueError(f"an address has at most {_MAX_URL_CHARS} characters, got {len(url)}")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError):
        raise ValueError("the address is no URL") from None
    host = parsed.raw_host.decode("ascii", "replace")
    if parsed.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        raise ValueError("a webhook's address begins with https:// or http:// and names a host")
    # The very spelling that is connected to later.
    return host, parsed.port or (443 if parsed.scheme == "https" else 80)


def _credentials(url: str) -> dict[str, str]:
    """The header for a name and password that stand in the address."""
    parsed = httpx.URL(url)
    if not parsed.userinfo:
        return {}
    pair = f"{parsed.username}:{parsed.password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}


def _start_of(response: httpx.Response) -> str:
    """The start of the answer's body; what arrived of it when it does not arrive whole."""
    found = b""
    try:
        # Not unpacked: a few bytes could become gigabytes, and the start of the text is all that is kept.
        for chunk in response.iter_raw(_ANSWER_BYTES):
            found += chunk
            if len(found) >= _ANSWER_BYTES:
                break
    except httpx.TransportError:
        pass
    return found.decode("utf-8", "replace")


def _judged(response: httpx.Response, text: str, hidden: tuple[str, ...]) -> Outcome:
    status = response.status_code
    answer = cut(without(text, hidden))
    if 200 <= status < 300:
        return sent(answer, status)
    if 300 <= status < 400:
        answer = "it answers with a redirect, which is not followed; enter the address that it leads to"
    is_hopeless = status in _HOPELESS or 300 <= status < 400
    wait_seconds = retry_after(response.headers.get("retry-after"), time.time())
    return Outcome(False, answer, status, not is_hopeless, wait_seconds)


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds for which a receiver asks to be left alone, given as seconds or as a date; none without."""
    if header is None:
        return None
    text = header.strip()
    if text.isdecimal() and len(text) <= 9:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None
