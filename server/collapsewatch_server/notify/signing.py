"""Signatures of webhooks: HMAC-SHA256 over `timestamp.body`, so that nobody can make up a message."""

import hashlib
import hmac
import secrets

TIMESTAMP_HEADER = "X-Collapsewatch-Timestamp"
SIGNATURE_HEADER = "X-Collapsewatch-Signature"
DELIVERY_HEADER = "X-Collapsewatch-Delivery"
_SECRET_BYTES = 32


def new_secret() -> str:
    """A secret for a channel whose owner did not choose one."""
    return f"cw_hook_{secrets.token_urlsafe(_SECRET_BYTES)}"


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What stands in the signature's header: `v1=` and 64 hexadecimal digits."""
    signed = timestamp.encode("ascii") + b"." + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def headers(secret: str, timestamp: int, body: bytes, delivery_id: str) -> dict[str, str]:
    """The three headers of a signed message."""
    return {
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: signature(secret, str(timestamp), body),
        DELIVERY_HEADER: delivery_id,
    }
