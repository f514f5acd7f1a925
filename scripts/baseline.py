"""A baseline scan of a running server: `make baseline URL=http://127.0.0.1:7788`.

Follows every link, script, style and module of the pages and asks every GET route of the API document, signed
in (`--name`, the password is asked for) or not. Finds missing security headers, wrong content types, inline
script, content from elsewhere, careless cookies, banners, traces of the inside and, with `--anonymous`, open
doors.
"""

import argparse
import getpass
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

PAGES = ("/", "/docs", f"/s/{'x' * 32}", "/nowhere")
OPEN = ("/api/v1/session", "/api/v1/shared/", "/healthz", "/readyz")
"""What whoever has not signed in may ask of the API: these, and what begins with them."""
_WANTED = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "",
}
_POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json"}
_INSIDE = re.compile(r"Traceback \(most recent|File \"[^\"]+\.py\", line|sqlalchemy\.|psycopg\.|sqlite3\.")
_MODULE = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")
_STYLE_URL = re.compile(r"""url\(\s*["']?(?!data:)([^"')]+)""")
_DESCRIPTION = ("/docs", "/openapi.json")
_MAX_FETCHES = 2000


class Document(HTMLParser):
    """What a page refers to, and what a policy without inline script would not let run."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.inline: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.inline += [f"<{tag} {name}=…>" for name in given if name.startswith("on")]
        for name in ("href", "src"):
            if given.get(name, "").lower().startswith("javascript:"):
                self.inline.append(f"<{tag} {name}=javascript:…>")
            elif name in given and (tag != "a" or given[name].startswith("/")):
                self.references.append(given[name])
        self._in_script = tag == "script" and "src" not in given and "json" not in given.get("type", "")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.inline.append("<script>…</script>")


def scan(client: httpx.Client, *, anonymous: bool = False, known: dict[str, Any] | None = None) -> list[str]:
    """A line for everything that is not as it should be; nothing when all is well.

    Args:
        client: has the server's address, and the session's cookie where somebody is signed in.
        anonymous: what protects data has to refuse.
        known: values for parameters in paths, such as `run_id`.
    """
    found: list[str] = []
    waiting, seen = list(PAGES), set(PAGES)
    while waiting:
        path = waiting.pop()
        answer = client.get(path)
        found += [f"{path}: {problem}" for problem in (*of_headers(path, answer), *of_content(path, answer))]
        references, problems = followed(path, answer)
        found += [f"{path}: {problem}" for problem in problems]
        waiting += [one for one in references if one not in seen]
        seen |= set(references)
        if len(seen) > _MAX_FETCHES:
            return [*found, f"there are more than {_MAX_FETCHES} files; the scan gave up"]
    for path in api_paths(client, known or {}):
        answer = client.get(path)
        found += [f"{path}: {problem}" for problem in (*of_headers(path, answer), *of_content(path, answer))]
        if anonymous and not path.startswith(OPEN) and answer.status_code not in (401, 403):
            found.append(f"{path}: answers {answer.status_code} to whoever has not signed in")
    return found


def of_headers(path: str, answer: httpx.Response) -> Iterator[str]:
    """What is wrong with the headers of an answer."""
    headers = answer.headers
    for name, value in _WANTED.items():
        if not headers.get(name, "").startswith(value) or name not in headers:
            yield f"{name} is {headers.get(name)!r}"
    policy = dict(
        part.strip().partition(" ")[::2] for part in headers.get("content-security-policy", "").split(";")
    )
    for name, value in _POLICY.items():
        if policy.get(name) != value:
            yield f"the policy's {name} is {policy.get(name)!r}"
    is_framed = path.startswith("/s/")
    if policy.get("frame-ancestors") != ("*" if is_framed else "'none'"):
        yield f"the policy's frame-ancestors is {policy.get('frame-ancestors')!r}"
    if not is_framed and headers.get("x-frame-options") != "DENY":
        yield f"x-frame-options is {headers.get('x-frame-options')!r}"
    if path.startswith("/api/") and headers.get("cache-control", "") != "no-store":
        yield f"an answer of the API may be kept: cache-control is {headers.get('cache-control')!r}"
    for name in ("server", "x-powered-by", "access-control-allow-origin"):
        if name in headers:
            yield f"it says {name}: {headers[name]}"
    for cookie in headers.get_list("set-cookie"):
        flags = {flag.strip().lower() for flag in cookie.split(";")[1:]}
        wanted = {"httponly", "samesite=strict", *(["secure"] if answer.url.scheme == "https" else [])}
        if not wanted <= flags:
            yield f"the cookie {cookie.partition('=')[0]} lacks {', '.join(sorted(wanted - flags))}"


def of_content(path: str, answer: httpx.Response) -> Iterator[str]:
    """What is wrong with the status, the type or the text of an answer."""
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    if answer.status_code >= 500 and answer.status_code != 503:
        yield f"answers {answer.status_code}"
    if answer.content and not media_type:
        yield "has no content type"
    ending = re.search(r"\.[a-z]+$", urlsplit(path).path)
    wanted = _TYPES.get(ending[0]) if ending and answer.status_code == 200 else None
    if wanted is not None and media_type != wanted:
        yield f"is {media_type}, expected {wanted}"
    if (
        path.startswith("/api/")
        and media_type == "text/html"
        and "attachment" not in answer.headers.get("content-disposition", "")
    ):
        yield "an answer of the API opens as a page"
    is_text = media_type.startswith("text/") or "json" in media_type
    # Scripts are files of the package, and the API's description has the traceback of a worker as an example.
    if (
        is_text
        and media_type != "text/javascript"
        and path not in _DESCRIPTION
        and (trace := _INSIDE.search(answer.text))
    ):
        yield f"shows the inside: {trace[0]}"


def followed(path: str, answer: httpx.Response) -> tuple[list[str], list[str]]:
    """Paths of this server to which an answer refers, and what is wrong with its references."""
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    references: list[str] = []
    problems: list[str] = []
    if media_type == "text/html" and "content-disposition" not in answer.headers:
        document = Document()
        document.feed(answer.text)
        references = document.references
        problems = [f"inline script: {one}" for one in document.inline]
    elif media_type == "text/javascript" and "/vendor/" not in path:
        references = _MODULE.findall(answer.text)
    elif media_type == "text/css":
        references = _STYLE_URL.findall(answer.text)
    own = urlsplit(str(answer.url)).netloc
    targets = [urlsplit(urljoin(str(answer.url), one)) for one in references if not one.startswith("data:")]
    problems += [f"content from elsewhere: {one.geturl()}" for one in targets if one.netloc != own]
    paths = [one.path + (f"?{one.query}" if one.query else "") for one in targets if one.netloc == own]
    if answer.status_code >= 400 and path not in PAGES:
        problems.append(f"is referred to and answers {answer.status_code}")
    return paths, problems


def api_paths(client: httpx.Client, known: dict[str, Any]) -> Iterator[str]:
    """Every GET route of the API document but the streams, which do not end."""
    for template, methods in client.get("/openapi.json").json()["paths"].items():
        if "get" in methods and not template.endswith("/stream"):
            names = re.findall(r"{(\w+)}", template)
            path = template.format(**{name: known.get(name, 1) for name in names})
            queries = {"run": known.get("run_id", "none"), "metric": "kl", "q": "a", "chart": "retrieval"}
            yield f"{path}?{httpx.QueryParams(queries)}" if needs_query(methods["get"]) else path


def needs_query(operation: dict[str, Any]) -> bool:
    """Whether the route refuses to be called without parameters."""
    return any(one["in"] == "query" and one.get("required") for one in operation.get("parameters", []))


def main() -> int:
    """The exit status: 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--name", help="account to sign in with")
    parser.add_argument("--anonymous", action="store_true", help="nothing that protects data may answer")
    given = parser.parse_args()
    with httpx.Client(base_url=given.url.rstrip("/"), timeout=30, trust_env=False) as client:
        if given.name:
            body = {"name": given.name, "password": getpass.getpass()}
            client.post("/api/v1/session", json=body, headers={"Origin": given.url}).raise_for_status()
        runs = client.get("/api/v1/runs")
        listed = runs.json()["runs"] if runs.is_success else []
        known = {"run_id": listed[0]["run_id"]} if listed else {}
        found = scan(client, anonymous=given.anonymous, known=known)
    print("\n".join(found) or "Nothing found.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
