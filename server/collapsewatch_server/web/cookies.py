"""The cookie by which a browser shows that it is signed in."""

from fastapi import Request, Response

_NAME = "collapsewatch_session"


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


def _name(request: Request) -> str:
    # Browsers take a name with this prefix only over HTTPS and for this very host.
    return f"__Host-{_NAME}" if _is_secure(request) else _NAME


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"
