"""Errors that a client sees: a class with a status each, one JSON shape for all."""

from collections.abc import Iterable
from typing import ClassVar

from pydantic import BaseModel, Field

from collapsewatch_server.web.previews import preview


class ErrorDetail(BaseModel):
    """One thing that was wrong."""

    loc: str
    """Where: field names and positions joined by dots, such as `rollouts.3.reward`."""
    message: str
    given: str = ""
    """The start of what was given there, as JSON."""


class ErrorContent(BaseModel):
    code: str
    """Stable name of the kind of error, such as `run_not_found`."""
    message: str
    details: list[ErrorDetail] = Field(default_factory=list)


class ErrorBody(BaseModel):
    """The body of every answer from 400 up."""

    error: ErrorContent


class ServerError(Exception):
    """An answer that says no. Subclasses set the status and the code."""

    status_code: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, message: str, details: Iterable[ErrorDetail] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = list(details)

    def all_headers(self) -> dict[str, str]:
        """Headers of the answer."""
        return dict(self.headers)

    def body(self) -> ErrorBody:
        """The answer's JSON."""
        return ErrorBody(error=ErrorContent(code=self.code, message=self.message, details=self.details))


def wrong(loc: str, message: str, given: object) -> ErrorDetail:
    """A detail that shows the start of what was given."""
    return ErrorDetail(loc=loc, message=message, given=preview(given))


class MalformedRequest(ServerError):
    status_code = 400
    code = "malformed_request"


class Unauthorised(ServerError):
    status_code = 401
    code = "unauthorised"
    headers: ClassVar[dict[str, str]] = {"WWW-Authenticate": "Bearer"}


class Forbidden(ServerError):
    status_code = 403
    code = "forbidden"


class NoRule(ServerError):
    """A route that is not in the table of who may call what."""

    status_code = 403
    code = "forbidden"


class WrongCredentials(ServerError):
    """Name or password are not right; which one is not said."""

    status_code = 401
    code = "wrong_credentials"


class WeakPassword(ServerError):
    status_code = 422
    code = "weak_password"


class AccountNotFound(ServerError):
    status_code = 404
    code = "account_not_found"

    def __init__(self, account: str) -> None:
        super().__init__(f"there is no account {account!r}")


class AccountConflict(ServerError):
    status_code = 409
    code = "account_conflict"


class InvitationNotFound(ServerError):
    status_code = 404
    code = "invitation_not_found"


class InvitationConflict(ServerError):
    status_code = 409
    code = "invitation_conflict"


class KeyNotFound(ServerError):
    status_code = 404
    code = "key_not_found"


class KeyConflict(ServerError):
    status_code = 409
    code = "key_conflict"


class InvitationEnded(ServerError):
    status_code = 410
    code = "invitation_ended"


class NotLetIn(ServerError):
    """Another service vouches for somebody who has no account here, and gets none."""

    status_code = 403
    code = "not_let_in"

    def __init__(self, reason: str, message: str) -> None:
        """The refusal.

        Args:
            reason: one word for the page: `uninvited`, `taken`, `closed`, `unnamed`.
        """
        super().__init__(message)
        self.reason = reason


class ProxyNotTrusted(ServerError):
    """Somebody who is no trusted proxy says who sent the request."""

    status_code = 403
    code = "proxy_not_trusted"


class ProviderAway(ServerError):
    status_code = 502
    code = "provider_away"


class NoProvider(ServerError):
    status_code = 404
    code = "no_provider"


class ProjectNotFound(ServerError):
    status_code = 404
    code = "project_not_found"

    def __init__(self, project: str) -> None:
        super().__init__(f"there is no project {project!r}")


class CrossSite(ServerError):
    status_code = 403
    code = "cross_site"


class BodyTooSlow(ServerError):
    status_code = 408
    code = "body_too_slow"
    # The rest may still trickle in, and nobody waits for it.
    headers: ClassVar[dict[str, str]] = {"Connection": "close"}


class RunNotFound(ServerError):
    status_code = 404
    code = "run_not_found"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {preview(run_id)}", [wrong("run_id", "no such run", run_id)])


class AttemptNotFound(ServerError):
    status_code = 404
    code = "attempt_not_found"

    def __init__(self, attempt_id: str) -> None:
        message = f"the run has no attempt {preview(attempt_id)}"
        super().__init__(message, [wrong("attempt_id", "no such attempt", attempt_id)])


class JobNotFound(ServerError):
    status_code = 404
    code = "job_not_found"

    def __init__(self, job_id: int) -> None:
        super().__init__(f"there is no job {job_id}", [wrong("job_id", "no such job", job_id)])


class AlertNotFound(ServerError):
    status_code = 404
    code = "alert_not_found"

    def __init__(self, alert_id: int) -> None:
        super().__init__(f"there is no alert {alert_id}", [wrong("alert_id", "no such alert", alert_id)])


class AlertRuleNotFound(ServerError):
    status_code = 404
    code = "alert_rule_not_found"

    def __init__(self, rule_id: int) -> None:
        super().__init__(f"there is no alert rule {rule_id}", [wrong("rule_id", "no such rule", rule_id)])


class AlertConflict(ServerError):
    status_code = 409
    code = "alert_conflict"


class AlertRuleConflict(ServerError):
    status_code = 409
    code = "alert_rule_conflict"


class ChannelNotFound(ServerError):
    status_code = 404
    code = "channel_not_found"

    def __init__(self, channel_id: int) -> None:
        message = f"there is no channel {channel_id}"
        super().__init__(message, [wrong("channel_id", "no such channel", channel_id)])


class ShareNotFound(ServerError):
    status_code = 404
    code = "share_not_found"


class NotShared(ServerError):
    """It may be there, but the link does not show it; whoever has the link cannot tell the two apart."""

    status_code = 404
    code = "not_shared"


class ChartNotFound(ServerError):
    status_code = 404
    code = "chart_not_found"


class ShareConflict(ServerError):
    status_code = 409
    code = "share_conflict"


class ShareEnded(ServerError):
    status_code = 410
    code = "share_ended"


class StepNotFound(ServerError):
    status_code = 404
    code = "step_not_found"


class RolloutNotFound(ServerError):
    status_code = 404
    code = "rollout_not_found"


class TextRemoved(ServerError):
    """The batch is there with all its numbers, and its text is not: the project keeps that for some days."""

    status_code = 410
    code = "text_removed"

    def __init__(self, step: int) -> None:
        super().__init__(
            f"what the model wrote at step {step} was removed: its project keeps text for some days only"
        )


class RunConflict(ServerError):
    status_code = 409
    code = "run_conflict"


class BatchConflict(ServerError):
    status_code = 409
    code = "batch_conflict"


class JobConflict(ServerError):
    status_code = 409
    code = "job_conflict"


class ChannelConflict(ServerError):
    status_code = 409
    code = "channel_conflict"


class BodyTooLarge(ServerError):
    status_code = 413
    code = "body_too_large"


class UnsupportedEncoding(ServerError):
    status_code = 415
    code = "unsupported_encoding"


class WrongHost(ServerError):
    status_code = 421
    code = "wrong_host"


class InvalidBody(ServerError):
    status_code = 422
    code = "invalid_body"


class InvalidRequest(ServerError):
    status_code = 422
    code = "invalid_request"


class ChannelRefused(ServerError):
    """The channel may not have this address or this secret; what was given is not repeated."""

    status_code = 422
    code = "channel_refused"


class TooBusy(ServerError):
    """More data arrives than can be taken in; the client keeps it and comes again."""

    status_code = 429
    code = "too_busy"

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds

    def all_headers(self) -> dict[str, str]:
        """Headers of the answer, `Retry-After` among them."""
        return {"Retry-After": str(self.retry_after_seconds)}


class TooManyRequests(TooBusy):
    """One caller, or one address, asks more often than it may."""

    code = "too_many_requests"


class QueryTooLong(ServerError):
    status_code = 414
    code = "query_too_long"


class NotReady(ServerError):
    status_code = 503
    code = "not_ready"
    headers: ClassVar[dict[str, str]] = {"Retry-After": "1"}
