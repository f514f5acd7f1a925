"""Signing in by an OpenID provider: the authorization code flow with PKCE, state and nonce.

What the browser has to bring back lies with the browser, sealed: a server that is started again meanwhile,
or another one behind the same address, goes on with it.
"""

import json
import logging
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.starlette_client import StarletteIntegration, StarletteOAuth2App
from fastapi import Request
from joserfc.errors import JoseError

from collapsewatch_server.accounts.arrivals import Arrival
from collapsewatch_server.notify.vault import Unsealable, Vault
from collapsewatch_server.settings import ServerSettings, is_private_url

log = logging.getLogger(__name__)
# It would write the secret half of PKCE to the log; the other tells each request.
logging.getLogger("authlib").setLevel(logging.INFO)
logging.getLogger("httpx2").setLevel(logging.WARNING)

STATE_SECONDS = 600.0
"""How long somebody may take to sign in at the provider."""
_METADATA_SECONDS = 3600.0
_ANSWER_SECONDS = 10.0
_LEEWAY_SECONDS = 60
_MAX_METADATA_BYTES = 2**20
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
# Signed with the provider's own key, that is: not `none`, and nothing that the client secret would do for.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_NAME = "provider"
_Client = Any


class ProviderProblem(Exception):
    """The provider has signed nobody in."""

    def __init__(self, reason: str, message: str) -> None:
        """The problem.

        Args:
            reason: one word for the page: `unreachable`, `refused`, `expired` or `failed`.
            message: for the log.
        """
        super().__init__(message)
        self.reason = reason


class Provider:
    """Sends browsers to the provider, and finds out whom it has signed in."""

    def __init__(self, settings: ServerSettings) -> None:
        assert settings.oidc_issuer is not None
        self.name = settings.oidc_name
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        secret = settings.oidc_client_secret
        self._client_secret = None if secret is None else secret.get_secret_value()
        self._operators = frozenset(name.lower() for name in settings.oidc_operators)
        self._everyone = settings.oidc_join == "everyone"
        key = None if settings.secret_key is None else settings.secret_key.get_secret_value()
        self._vault = Vault(settings.home, key, purpose=b"collapsewatch sign-in v1")
        self._known: tuple[float, _Client] | None = None

    async def begin(self, back_url: str, *, joining: str | None = None) -> tuple[str, str]:
        """Where to send the browser, and what it has to bring back.

        Args:
            back_url: where the provider sends it then.
            joining: token of a link by which somebody joins this way.

        Raises:
            ProviderProblem: the provider does not answer, or not as one.
        """
        client = await self._client()
        there = await client.create_authorization_url(back_url)
        kept = {name: there[name] for name in ("state", "nonce", "code_verifier")}
        until = str(time.time() + STATE_SECONDS)
        link = {} if joining is None else {"joining": joining}
        return there["url"], self._vault.seal({**kept, **link, "redirect_uri": back_url, "until": until})

    async def look(self) -> None:
        """Comes back when the provider answers as one.

        Raises:
            ProviderProblem: it does not.
        """
        await self._client()

    async def arrival(self, request: Request, sealed: str | None) -> tuple[Arrival, str | None]:
        """Whom the provider has signed in, and the token of the link by which that person joins, if any.

        Args:
            request: with which the browser came back.
            sealed: what it brought back.

        Raises:
            ProviderProblem: nobody, or it cannot be told.
        """
        kept = self._opened(sealed)
        # RFC 9207: another provider's answer is not taken for this one's.
        if request.query_params.get("iss") not in (None, self._issuer):
            raise ProviderProblem("failed", "the answer is another issuer's")
        client = await self._client()
        state, joining = kept.pop("state"), kept.pop("joining", None)
        request.scope["session"] = {f"_state_{_NAME}_{state}": {"data": kept}}
        try:
            token = await client.authorize_access_token(request, leeway=_LEEWAY_SECONDS)
            claims = dict(token.get("userinfo") or {})
            if not claims:
                raise ProviderProblem("failed", "the answer has no ID token")
            says_all = {"email", "email_verified"} <= claims.keys()
            if not says_all and client.server_metadata.get("userinfo_endpoint"):
                claims |= await _more_claims(client, token, claims["sub"])
        except MismatchingStateError as error:
            raise ProviderProblem("expired", "the state is not the one that was given") from error
        except AuthlibBaseError as error:
            reason = "refused" if error.error == "access_denied" else "failed"
            raise ProviderProblem(reason, f"{error.error}: {error.description}") from error
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise ProviderProblem("failed", f"ID token: {type(error).__name__}: {error}") from error
        except httpx2.HTTPError as error:
            raise ProviderProblem("unreachable", f"{type(error).__name__}: {error}") from error
        return self._arrival(claims), joining

    def _arrival(self, claims: dict[str, Any]) -> Arrival:
        subject = str(claims["sub"])
        email = claims.get("email")
        said = claims.get("email_verified")
        # Some providers say it as text. One that does not say it has not verified anything.
        is_verified = (said is True or said == "true") and isinstance(email, str)
        proven = str(email).strip().lower() if is_verified else None
        return Arrival(
            subject=f"{self._issuer} {subject}",
            name=proven or f"{subject}@{urlsplit(self._issuer).hostname}",
            proven_name=proven,
            is_operator=bool(self._operators & {subject.lower(), proven}),
            may_join=self._everyone,
        )

    def _opened(self, sealed: str | None) -> dict[str, str]:
        kept: dict[str, str] = {}
        with suppress(Unsealable):
            kept = {} if sealed is None else self._vault.open(sealed)
        if float(kept.pop("until", 0.0)) < time.time():
            raise ProviderProblem("expired", "the browser brings nothing back, or too late")
        return kept

    async def _client(self) -> _Client:
        """Authlib's client of the provider; what that says of itself is asked again after an hour."""
        if self._known is None or time.monotonic() - self._known[0] > _METADATA_SECONDS:
            self._known = (time.monotonic(), self._made(await self._metadata()))
        return self._known[1]

    def _made(self, metadata: dict[str, Any]) -> _Client:
        # None but these: what else a provider says would become settings of the HTTP client.
        said = {name: metadata[name] for name in _ENDPOINTS if name in metadata}
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return StarletteOAuth2App(
            StarletteIntegration(_NAME),
            _NAME,
            client_id=self._client_id,
            client_secret=self._client_secret,
            client_kwargs={
                "scope": "openid email",
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": method if self._client_secret else "none",
                "timeout": _ANSWER_SECONDS,
            },
            issuer=self._issuer,
            id_token_signing_alg_values_supported=[name for name in offered if name in _ALGORITHMS],
            **said,
        )

    async def _metadata(self) -> dict[str, Any]:
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            async with httpx2.AsyncClient(timeout=_ANSWER_SECONDS) as http:
                answer = await http.get(url)
            answer.raise_for_status()
            if len(answer.content) > _MAX_METADATA_BYTES:
                raise ValueError("far too long")
            metadata: dict[str, Any] = answer.json()
            _check(metadata, self._issuer)
        except httpx2.HTTPError as error:
            raise ProviderProblem("unreachable", f"{url}: {type(error).__name__}: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProviderProblem("failed", f"{url}: {type(error).__name__}: {error}") from error
        return metadata


async def _more_claims(client: _Client, token: dict[str, Any], subject: str) -> dict[str, Any]:
    """What the provider says of the person where the ID token says too little."""
    found = dict(await client.userinfo(token=token))
    if found.get("sub") != subject:
        raise ValueError("it speaks of somebody else")
    # Both or neither: what is verified is this address and not the ID token's.
    names = {"email", "email_verified"}
    return {name: found[name] for name in names} if names <= found.keys() else {}


def _check(metadata: dict[str, Any], issuer: str) -> None:
    """Comes back when a provider of this name says so of itself.

    Raises:
        ValueError: another one, or one that could be listened to.
        KeyError: it leaves out what is needed.
    """
    if metadata["issuer"] != issuer:
        raise ValueError(f"it calls itself {json.dumps(metadata['issuer'])[:200]}: set that as oidc_issuer")
    for name in _ENDPOINTS:
        if name == "userinfo_endpoint" and name not in metadata:
            continue
        url = metadata[name].partition("?")[0]
        if not is_private_url(url):
            raise ValueError(f"{name} is no https:// address")
