"""Where the server may send of its own accord: the open internet, checked where it connects."""

import base64
import datetime
import ipaddress
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.notify import addresses, webhook
from collapsewatch_server.notify.guard import OutgoingGuard, Refused, Unreachable, parse_host
from tests.server.receivers import Answer, dripping_receiver, http_receiver

CLOSED = OutgoingGuard()
OPEN = OutgoingGuard(allow_private=True)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",  # noqa: S104 (refused, not bound)
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "192.0.0.8",
        "198.18.0.1",
        "203.0.113.5",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "fc00::1",
        "fd12:3456::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:0:53aa:64c:0:0:80ff:fffe",
    ],
)
def test_addresses_that_are_not_of_the_open_internet_are_refused(address: str) -> None:
    assert addresses.why_not_public(address)
    with pytest.raises(Refused):
        OutgoingGuard(resolve=lambda host, port: [address]).addresses_of("a.example", 443)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_open_internet_pass(address: str) -> None:
    assert addresses.why_not_public(address) == ""
    guard = OutgoingGuard(resolve=lambda host, port: [address])
    assert guard.addresses_of("a.example", 443) == [address]


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_refused_in_every_wrapping_if_it_is_refused_plain(
    address: ipaddress.IPv4Address,
) -> None:
    if not addresses.why_not_public(str(address)):
        assert address.is_global
        return
    number = int(address)
    for wrapped in (
        ipaddress.IPv6Address(0xFFFF << 32 | number),
        ipaddress.IPv6Address(0x64FF9B << 96 | number),
        ipaddress.IPv6Address(0x2002 << 112 | number << 80),
        ipaddress.IPv6Address(number),
    ):
        assert addresses.why_not_public(str(wrapped)), wrapped


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "0", "localhost", "LOCALHOST"]
)
def test_other_spellings_of_this_machine_are_refused(host: str) -> None:
    with pytest.raises(Refused):
        CLOSED.addresses_of(host, 80)
    with pytest.raises((Refused, ValueError)):
        webhook.check_url(f"http://{host}/", CLOSED)


@pytest.mark.parametrize("url", ["http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[fe80::1]/"])
def test_spellings_of_ipv6_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        webhook.check_url(url, CLOSED)


@pytest.mark.parametrize(
    "url",
    ["", "hooks.example/x", "ftp://hooks.example", "file:///etc/passwd", "http://", "https:///x", "http://["],
)
def test_what_is_no_address_of_http_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|https"):
        webhook.check_url(url, OPEN)


def test_a_name_that_leads_to_this_machine_is_refused_where_it_connects() -> None:
    with http_receiver() as receiver:
        # `localhost` is the one name that every machine resolves to itself.
        outcome = _post(CLOSED, receiver.url(host="localhost"))
        assert (outcome.is_sent, outcome.may_retry) == (False, False)
        assert "loopback" in outcome.answer
        assert _post(OPEN, receiver.url(host="localhost")).is_sent
        assert len(receiver.got) == 1


def test_a_name_that_means_another_address_by_the_time_of_the_connection_is_not_asked_again() -> None:
    with http_receiver() as receiver:
        answers = iter([["127.0.0.1"], ["10.0.0.1"], ["10.0.0.2"]])
        asked: list[str] = []

        def resolve(host: str, port: int) -> list[str]:
            asked.append(host)
            return next(answers)

        guard = OutgoingGuard(hosts=[f"hooks.example:{receiver.port}"], resolve=resolve)
        outcome = _post(guard, receiver.url(host="hooks.example"))
        assert outcome.is_sent, outcome
        # One question, and the connection went to its answer, with the name kept for the receiver.
        assert asked == ["hooks.example"]
        assert receiver.got[0].headers["host"] == f"hooks.example:{receiver.port}"


def test_a_name_with_one_private_address_among_public_ones_is_refused() -> None:
    guard = OutgoingGuard(resolve=lambda host, port: ["8.8.8.8", "127.0.0.1"])
    with pytest.raises(Refused, match="loopback"):
        guard.addresses_of("both.example", 443)


def test_the_operator_names_hosts_with_or_without_a_port() -> None:
    guard = OutgoingGuard(hosts=["localhost:8065", "127.0.0.1"])
    assert guard.addresses_of("localhost", 8065)
    assert guard.addresses_of("LOCALHOST", 8065)
    assert guard.addresses_of("127.0.0.1", 25) == ["127.0.0.1"]
    with pytest.raises(Refused):
        guard.addresses_of("localhost", 6379)
    # A host is named as it stands in the URL; another name for the same machine is not it.
    with pytest.raises(Refused):
        guard.addresses_of("127.0.0.2", 25)


@pytest.mark.parametrize("text", ["", "a b", "http://a", "a:0", "a:99999", "a:b", "user@a"])
def test_what_is_no_host_is_refused_by_the_settings(text: str) -> None:
    with pytest.raises(ValueError, match="a host is"):
        parse_host(text)


def test_redirects_are_not_followed() -> None:
    with http_receiver() as target, http_receiver() as receiver:
        receiver.answer = lambda got: Answer(302, b"", {"Location": target.url("/inner")})
        outcome = _post(OPEN, receiver.url())
        assert (outcome.is_sent, outcome.status_code, outcome.may_retry) == (False, 302, False)
        assert "redirect" in outcome.answer
        assert target.got == []


def test_a_name_and_password_in_the_address_are_sent_as_credentials() -> None:
    with http_receiver() as receiver:
        url = receiver.url().replace("http://", "http://me:p%40ss-word@")
        assert _post(OPEN, url).is_sent
        assert (
            receiver.got[0].headers["authorization"] == "Basic " + base64.b64encode(b"me:p@ss-word").decode()
        )
        assert webhook.masked(url) == f"http://127.0.0.1:{receiver.port}/…"
        receiver.answer = lambda got: Answer(500, b"p%40ss-word and p@ss-word")
        assert _post(OPEN, url).answer == "*** and ***"


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_receiver() as proxy, http_receiver() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
        assert _post(OPEN, receiver.url()).is_sent
        assert (len(proxy.got), len(receiver.got)) == (0, 1)


@pytest.mark.parametrize(
    ("status", "may_retry"),
    [
        (400, False),
        (401, False),
        (404, True),
        (408, True),
        (410, False),
        (429, True),
        (500, True),
        (503, True),
    ],
)
def test_what_may_succeed_later_is_tried_again(status: int, may_retry: bool) -> None:
    with http_receiver() as receiver:
        receiver.answer = lambda got: Answer(status, b"why", {"Retry-After": "7"})
        outcome = _post(OPEN, receiver.url())
        assert (outcome.is_sent, outcome.status_code, outcome.may_retry) == (False, status, may_retry)
        assert (outcome.answer, outcome.retry_after_seconds) == ("why", 7.0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 0 ", 0.0),
        ("-5", None),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:10:00 GMT", 500.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("9" * 40, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert webhook.retry_after(header, 100.0) == seconds


@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (b"", b"x"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 9999\r\n\r\n", b"z"),
    ],
)
def test_a_receiver_that_drips_is_left_at_the_deadline(first: bytes, drip: bytes) -> None:
    with dripping_receiver(first, drip, 0.05) as port:
        began = time.monotonic()
        outcome = _post(OPEN, f"http://127.0.0.1:{port}/", seconds=0.5)
        # It would drip for ever.
        assert time.monotonic() - began < 20
        assert (outcome.is_sent, outcome.may_retry) == (False, True)


def test_a_receiver_that_is_not_there_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome = _post(OPEN, f"http://127.0.0.1:{port}/")
    assert (outcome.is_sent, outcome.may_retry, outcome.status_code) == (False, True, None)
    outcome = _post(OPEN, "http://no-such-name.invalid/")
    assert (outcome.is_sent, outcome.may_retry) == (False, True)


def test_a_large_answer_is_cut_and_secrets_are_struck_out_of_it_and_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    with http_receiver() as receiver:
        url = receiver.url("/services/T0123/abcdefgh?token=tok-secret")
        echo = b"you sent /services/T0123/abcdefgh?token=tok-secret signed with " + b"s" * 20 + b" \x00\n"
        receiver.answer = lambda got: Answer(500, echo + b"x" * 100_000)
        outcome = _post(OPEN, url, secret="s" * 20)
        assert len(outcome.answer) <= 500
        for secret in ("T0123", "abcdefgh", "tok-secret", "s" * 20, "\x00"):
            assert secret not in outcome.answer
            assert secret not in caplog.text
        assert outcome.answer.startswith("you sent ")


def test_a_resolver_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def hang(*args: Any, **options: Any) -> Any:
        answered.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr("collapsewatch_server.notify.guard._RESOLVE_SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(Unreachable, match="no answer"):
        CLOSED.addresses_of("slow.example", 80)
    answered.set()


def _post(guard: OutgoingGuard, url: str, *, secret: str = "k" * 20, seconds: float = 60.0) -> Any:
    return webhook.send(guard, url=url, secret=secret, delivery_id="d1", body=b"{}", seconds=seconds)


def test_certificates_are_checked_against_the_name_although_an_address_is_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = _certificate(tmp_path, "hooks.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http_receiver(context=context) as receiver:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        guard = OutgoingGuard(allow_private=True, resolve=lambda host, port: ["127.0.0.1"])
        assert _post(guard, f"https://hooks.example:{receiver.port}/").is_sent
        for host in ("other.example", "127.0.0.1"):
            outcome = _post(guard, f"https://{host}:{receiver.port}/")
            assert (outcome.is_sent, outcome.may_retry) == (False, True)
            assert "certificate" in outcome.answer
        monkeypatch.delenv("SSL_CERT_FILE")
        assert not _post(guard, f"https://hooks.example:{receiver.port}/").is_sent
        assert len(receiver.got) == 1


def _certificate(folder: Path, host: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    moment = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - datetime.timedelta(hours=1))
        .not_valid_after(moment + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, private
