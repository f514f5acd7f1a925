"""Which of Apprise's addresses a channel may have. Pure.

Apprise also shows pop-ups on the server's own screen, runs programs, writes to its log and reads files; what
is not listed here is refused.
"""

from urllib.parse import parse_qsl, unquote, urlsplit

_OF_ANY_HOST = (
    "apprise apprises bark barks form forms gotify gotifys hassio hassios humhub humhubs json jsons mailto "
    "mailtos matrix matrixs mmost mmosts mastodon mastodons misskey misskeys ncloud nclouds nctalk nctalks "
    "notifico notificos ntfy ntfys pushdeer pushdeers rocket rockets signal signals synology synologys "
    "workflow workflows xml xmls goalert goalerts"
)
_OF_ONE_SERVICE = (
    "azure betterstack brevo chanify cliq dingtalk discord feishu flock gchat groupme guilded ifttt ilert "
    "incidentio jira join lark line mailersend mailgun notifiarr o365 onesignal opsgenie pagerduty pagertree "
    "pbul postmark pover prowl push resend revolt ringc ryver schan sendgrid ses simplepush slack "
    "smtp2go sns sparkpost spike splunk spush squadcast tgram twilio twist victorops vonage webex wecombot "
    "whatsapp wxteams zoom zulip"
)
SCHEMES = frozenset(_OF_ANY_HOST.split()) | frozenset(_OF_ONE_SERVICE.split())
_HAS_HOST = frozenset(_OF_ANY_HOST.split())
# Files of the server, other hosts' files, redirects, Apprise's own retries: no channel may ask for them.
_REFUSED_OPTIONS = frozenset(
    {"template", "keyfile", "subfile", "pgp", "pgpkey", "pgp_key", "attach", "redirect", "retry", "wait"}
)
_MAX_CHARS = 2000
_SHORTEST_SECRET = 4


def check(url: str) -> None:
    """Comes back if the address is one that channels may have.

    Raises:
        ValueError: it is not; the message says why, without the address.
    """
    if len(url) > _MAX_CHARS or not url.isprintable():
        raise ValueError(f"an Apprise URL has at most {_MAX_CHARS} printable characters")
    scheme = scheme_of(url)
    if not scheme:
        raise ValueError("an Apprise URL begins with its service, such as slack:// or mailtos://")
    if scheme not in SCHEMES:
        raise ValueError(f"`{scheme[:40]}` is not among the services that channels may use")
    for name, _ in _options(url):
        if name.lstrip("+-:").lower() in _REFUSED_OPTIONS:
            raise ValueError(f"the option `{name}` is not allowed in a channel's URL")


def scheme_of(url: str) -> str:
    """The service that the address names; empty when it names none."""
    scheme, separator, _ = url.strip().partition("://")
    return scheme.lower() if separator and scheme.replace("+", "").isalnum() else ""


def host_of(url: str) -> tuple[str, int] | None:
    """Host and port that the user has chosen; none when the service has one of its own."""
    scheme = scheme_of(url)
    if scheme not in _HAS_HOST:
        return None
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    # A mail address only names a domain, and the host may stand among the options.
    options = {name.lower(): value for name, value in _options(url)}
    if scheme in ("mailto", "mailtos"):
        host = options.get("smtp") or None
        port = port or (587 if scheme == "mailtos" else 25)
    if not host:
        return None
    return unquote(host), port or (443 if scheme.endswith("s") else 80)


def masked(url: str) -> str:
    """The service and the host that the user chose; everything else may be a secret."""
    found = host_of(url)
    return f"{scheme_of(url)}://{found[0] if found else ''}…"


def secrets_of(url: str) -> tuple[str, ...]:
    """The parts of an address that are not to be seen in anything that is kept."""
    rest = url.strip().partition("://")[2]
    place, _, query = rest.partition("?")
    parts = [url, rest, place, query, *query.split("&"), *(value for _, value in _options(url))]
    for sign in "/@:":
        parts = [*parts, *(piece for part in [*parts] for piece in part.split(sign))]
    found = host_of(url)
    shown = {found[0]} if found else set()
    secret = {one for one in parts if len(one) >= _SHORTEST_SECRET} - shown
    return tuple(secret | {unquote(one) for one in secret})


def _options(url: str) -> list[tuple[str, str]]:
    query = url.partition("?")[2]
    return parse_qsl(query, keep_blank_values=True)
