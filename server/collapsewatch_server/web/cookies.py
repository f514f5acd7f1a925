"""The cookie by which a browser shows that it is signed in."""

from urllib.parse import urlsplit

from fastapi import Request, Response

_NAME = "collapsewatch_session"
_PROVIDER_NAME = "collapsewatch_provider"


def session_token(request: Request) -> str | None:
    """The token that the browser sent, if any."""
    return request.cookies.get(_name(request))


def set_session(request: Request, response: Response, token: str, *, seconds: float) -> None:
    """Leaves a token with the browser, where no script and no other site can get at it."""
    response.set_cookie(
        _name(request),
        token,
        max_age=int(seconds),
        path="/",
        secure=_is_secure(request),
        httponly=True,
        # The page itself is the same for everybody, and what it asks for comes from its own site: so links
        # from elsewhere work, although the cookie does not come along with them.
        samesite="strict",
    )


def drop_session(request: Request, response: Response) -> None:
    """Takes the token back."""
    response.delete_cookie(
        _name(request), path="/", secure=_is_secure(request), httponly=True, samesite="strict"
    )


def provider_state(request: Request) -> str | None:
    """What was left with the browser when it was sent to the provider."""
    return request.cookies.get(_provider_name(request))


def set_provider_state(request: Request, response: Response, state: str, *, seconds: float) -> None:
    """Leaves with the browser what it has to bring back from the provider."""
    response.set_cookie(
        _provider_name(request),
        state,
        max_age=int(seconds),
        path=_provider_path(request),
        secure=_is_secure(request),
        httponly=True,
        # The browser comes back from another site.
        samesite="lax",
    )


def drop_provider_state(request: Request, response: Response) -> None:
    """Takes that back."""
    response.delete_cookie(
        _provider_name(request),
        path=_provider_path(request),
        secure=_is_secure(request),
        httponly=True,
        samesite="lax",
    )


def _name(request: Request) -> str:
    # Browsers take a name with this prefix only over HTTPS and for this very host.
    return f"__Host-{_NAME}" if _is_secure(request) else _NAME


def _provider_name(request: Request) -> str:
    return f"__Secure-{_PROVIDER_NAME}" if _is_secure(request) else _PROVIDER_NAME


def _provider_path(request: Request) -> str:
    # As the browser sees it: a proxy may have put the service below a path of its own.
    public_url: str | None = request.app.state.services.settings.public_url
    return f"{urlsplit(public_url or '').path.rstrip('/')}/api/v1/session/provider"


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"
