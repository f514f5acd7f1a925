"""An OpenID provider on a port of this machine: as strict as its specification, able to break its rules."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

Json = dict[str, Any]
CLIENT_ID, CLIENT_SECRET = "collapsewatch-test", "s3cret of the client: +/"


@dataclass
class OpenId:
    """The provider. Whoever comes to it is signed in at once, as `person`."""

    url: str
    person: Json = field(default_factory=lambda: {"sub": "u1", "email": "ada@x.org", "email_verified": True})
    issuer: str = ""
    """As it calls itself; its address when empty."""
    claims: Json = field(default_factory=dict)
    """Put over what an ID token holds; those that are None are left out."""
    metadata: Json = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k1"}))
    signing_key: RSAKey | None = None
    """Another than the one that it publishes."""
    in_userinfo_only: tuple[str, ...] = ()
    refuses: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: dict[str, Json] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def about(self) -> Json:
        return {
            "issuer": self.issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256"],
            **self.metadata,
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent."""
        self.asked.append(query)
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert set(query["scope"].split()) == {"openid", "email"}
        if self.refuses:
            answer = {"error": "access_denied", "error_description": "<b>no</b>"}
        else:
            answer = {"code": secrets.token_urlsafe(16)}
            self.codes[answer["code"]] = query
        return f"{query['redirect_uri']}?{urlencode({**answer, 'state': query['state']})}"

    def token(self, body: dict[str, str], authorization: str) -> tuple[int, Json]:
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (unquote(given[0]), unquote(given[2])) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client"}
        # A code is good once.
        asked = self.codes.pop(body["code"], None)
        challenge = hashlib.sha256(body.get("code_verifier", "").encode()).digest()
        if (
            asked is None
            or body["redirect_uri"] != asked["redirect_uri"]
            or base64.urlsafe_b64encode(challenge).rstrip(b"=").decode() != asked["code_challenge"]
        ):
            return 400, {"error": "invalid_grant"}
        token = secrets.token_urlsafe(16)
        self.tokens[token] = self.person
        told = {name: value for name, value in self.person.items() if name not in self.in_userinfo_only}
        now = int(time.time())
        claims = {
            "iss": self.issuer or self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **told,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        key = self.signing_key or self.key
        signed = jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 300, "id_token": signed}


@contextmanager
def open_id() -> Iterator[OpenId]:
    """A provider that answers for as long as the block lasts."""
    found: list[OpenId] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider, parts = found[0], urlsplit(self.path)
            answers: dict[str, Callable[[], Json]] = {
                "/.well-known/openid-configuration": provider.about,
                "/keys": lambda: {"keys": [provider.key.as_dict(private=False)]},
                "/userinfo": lambda: provider.tokens[self.headers["Authorization"].partition(" ")[2]],
            }
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(dict(parse_qsl(parts.query))))
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._say(200, answers[parts.path]())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._say(*found[0].token(dict(parse_qsl(body)), self.headers.get("Authorization", "")))

        def _say(self, status: int, content: Json) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.append(OpenId(f"http://127.0.0.1:{server.server_address[1]}"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
