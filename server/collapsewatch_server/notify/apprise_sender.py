"""Messages to people through Apprise (Slack, Discord, e-mail, …), each sent by a process of its own.

A process, because a plugin's connections can be checked there for what they are, because a plugin that hangs
can be ended, and because it holds no other secret than the channel's.
"""

import json
import logging
import os
import subprocess
import sys

from collapsewatch_server.notify import apprise_urls
from collapsewatch_server.notify.apprise_child import CERTIFICATES
from collapsewatch_server.notify.guard import OutgoingGuard
from collapsewatch_server.notify.messages import Text
from collapsewatch_server.notify.outcome import Outcome, failed, sent, without

log = logging.getLogger(__name__)

SECONDS = 20.0
"""How long a service may take."""
_SPARE_SECONDS = 5.0
_CHILD = "collapsewatch_server.notify.apprise_child"
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONUSERBASE", *CERTIFICATES)


def check_url(url: str, guard: OutgoingGuard) -> None:
    """Comes back if messages may be sent to the address as it is now.

    Raises:
        ValueError: Apprise's services do not have such an address, or channels may not.
        Refused: it leads into the host's own network.
        Unreachable: its host's name leads nowhere.
    """
    apprise_urls.check(url)
    host = apprise_urls.host_of(url)
    if host is not None:
        guard.addresses_of(*host)


def send(guard: OutgoingGuard, *, url: str, text: Text, seconds: float = SECONDS) -> Outcome:
    """What became of one attempt to send the text."""
    try:
        apprise_urls.check(url)
    except ValueError as error:
        return failed(str(error), may_retry=False)
    order = {
        "url": url,
        "title": text.title,
        "body": text.body,
        "type": text.kind,
        "seconds": seconds,
        "allow_private": guard.allow_private,
        "hosts": guard.hosts,
        "host": apprise_urls.host_of(url),
    }
    # The order goes by the standard input: arguments and variables can be read by other processes.
    # No proxy is passed on, because then the proxy's address would be checked instead of the receiver's.
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment["NETRC"] = os.devnull
    try:
        done = subprocess.run(  # noqa: S603 (our own module)
            [sys.executable, "-P", "-m", _CHILD],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=seconds + _SPARE_SECONDS,
            env=environment,
            check=False,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return failed(f"no answer within {seconds:g} s")
    except ValueError:
        # Its own words may hold the URL, and so only how it ended is told.
        log.error("the process that speaks to Apprise ended early", extra={"returncode": done.returncode})
        return failed(f"the process that sends it ended early ({done.returncode})")
    except OSError as error:
        return failed(f"no process could be started to send it: {error.strerror}")
    told = without(str(answer["answer"]), apprise_urls.secrets_of(url))
    if answer["is_sent"]:
        return sent(told)
    return failed(told or "the service did not take it", may_retry=bool(answer["may_retry"]))
