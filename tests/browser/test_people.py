"""People, keys, what is kept and what was done: looked after on the page of a server that asks to sign in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import collapsewatch
from tests.browser.team import OPERATOR, first_token, join, sign_in, somebody, start_guarded
from tests.browser.test_craft import AXE, grave_faults, settle
from tests.integration.service import Service, base_environment

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
PROJECT, RUN = "agents", "guarded-run"
HOSTILE = "<img src=x onerror='window.owned=1'>"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Service]:
    """A service with an operator and a run, which its trainer sent by a key."""
    home = tmp_path_factory.mktemp("guarded")
    running = Service(home, base_environment(home, home), scaled_out=False)
    try:
        start_guarded(running)
        with collapsewatch.init(
            PROJECT, "grpo", run_id=RUN, url=running.url, api_key=running.local_key()
        ) as run:
            run.log({"level": 0.5}, step=1)
        with somebody(browser, running) as page:
            join(page, first_token(running), OPERATOR)
            expect(page.get_by_test_id("run-row")).to_be_visible()
        yield running
    finally:
        running.stop()


@pytest.fixture
def operator(browser: Browser, guarded: Service) -> Iterator[Page]:
    with somebody(browser, guarded) as page:
        page.goto("/")
        sign_in(page, OPERATOR)
        expect(page.get_by_test_id("me")).to_be_visible()
        yield page


@pytest.fixture
def guest(browser: Browser, guarded: Service) -> Iterator[Page]:
    with somebody(browser, guarded) as page:
        yield page


def made_once(page: Page) -> str:
    """What is shown this once, in the dialog that is open; it is closed then."""
    shown = page.get_by_test_id("once-value")
    expect(shown).to_be_visible()
    value = shown.input_value()
    page.get_by_test_id("dialog-confirm").click()
    expect(shown).to_have_count(0)
    return value


def invite(page: Page, label: str, role: str) -> str:
    """The token of a link to join the project, made on the page."""
    page.goto(f"/#/settings/people?project={PROJECT}")
    page.get_by_test_id("invite-project").click()
    page.get_by_test_id("invite-label").fill(label)
    page.get_by_test_id("invite-role").select_option(role)
    page.get_by_test_id("dialog-confirm").click()
    return made_once(page).split("/#/join/")[1]


def row(page: Page, table: str, text: str) -> Any:
    return page.get_by_test_id(f"{table}-row").filter(has_text=text)


def test_a_viewer_is_invited_and_sees_nothing_to_change(operator: Page, guest: Page) -> None:
    token = invite(operator, f"Vera {HOSTILE}", "viewer")
    expect(row(operator, "project-invitations", "Vera")).to_contain_text("Viewer")
    guest.goto(f"/#/join/{token}")
    expect(guest.get_by_test_id("join")).to_contain_text("as Viewer")
    join(guest, token, "vera")
    expect(guest.get_by_test_id("run-row")).to_be_visible()
    expect(guest.get_by_test_id("edit-run")).to_have_count(0)
    guest.get_by_test_id("pick-all").check()
    expect(guest.get_by_test_id("delete-runs")).to_have_count(0)
    expect(guest.get_by_test_id("archive-runs")).to_have_count(0)
    guest.goto(f"/#/runs/{RUN}")
    expect(guest.get_by_test_id("run-name")).to_have_text("grpo")
    expect(guest.get_by_test_id("share")).to_be_hidden()
    guest.goto("/#/alerts/rules")
    expect(guest.get_by_test_id("detector").first).to_be_visible()
    for name in ("new-rule", "import-rules", "detector-enabled"):
        expect(guest.get_by_test_id(name).locator("visible=true")).to_have_count(0)
    guest.goto("/#/settings")
    tabs = guest.get_by_role("navigation", name="Settings").get_by_role("link")
    expect(tabs).to_have_text(["Workers and queue", "Alert channels"])
    guest.goto("/#/settings/channels")
    expect(guest.get_by_role("region", name="Browser notifications")).to_be_visible()
    expect(guest.get_by_test_id("add-channel")).to_be_hidden()
    # Who is promoted sees more as soon as the page asks again.
    operator.reload()
    expect(row(operator, "project-invitations", "Vera")).to_have_count(0)
    row(operator, "members", "vera").get_by_test_id("member-role").select_option("admin")
    guest.goto("/#/")
    guest.reload()
    guest.get_by_test_id("pick-all").check()
    expect(guest.get_by_test_id("delete-runs")).to_be_visible()
    guest.goto("/#/settings/people")
    expect(row(guest, "members", "vera")).to_contain_text("(you)")
    expect(guest.get_by_test_id("service-people")).to_be_hidden()
    # And who is removed sees nothing of the project any more.
    row(operator, "members", "vera").get_by_test_id("remove-member").click()
    operator.get_by_test_id("dialog-confirm").click()
    expect(row(operator, "members", "vera")).to_have_count(0)
    guest.goto("/#/")
    guest.reload()
    expect(guest.get_by_test_id("me")).to_be_visible()
    expect(guest.get_by_test_id("run-row")).to_have_count(0)
    assert operator.evaluate("window.owned") is None


def test_somebody_with_an_account_accepts_a_link(operator: Page, guest: Page) -> None:
    operator.goto("/#/settings/people")
    operator.get_by_test_id("invite-service").click()
    operator.get_by_test_id("invite-label").fill("Eve")
    operator.get_by_test_id("dialog-confirm").click()
    join(guest, made_once(operator).split("/#/join/")[1], "eve")
    expect(guest.get_by_test_id("runs-empty")).to_contain_text("in no project yet")
    token = invite(operator, "Eve again", "editor")
    guest.goto(f"/#/join/{token}")
    accept = guest.get_by_test_id("join-accept")
    expect(accept).to_contain_text("signed in as eve")
    guest.get_by_test_id("door-submit").click()
    expect(guest.get_by_test_id("edit-run")).to_be_visible()
    guest.get_by_test_id("edit-run").click()
    expect(guest.get_by_test_id("archive-run")).to_be_visible()
    expect(guest.get_by_test_id("delete-run")).to_have_count(0)


def test_an_account_is_reset_closed_and_opened(operator: Page, guest: Page) -> None:
    join(guest, invite(operator, "Max", "viewer"), "max")
    operator.goto("/#/settings/people")
    operator.reload()
    account = row(operator, "accounts", "max")
    account.get_by_test_id("reset-account").click()
    token = made_once(operator).split("/#/join/")[1]
    account.get_by_test_id("close-account").click()
    operator.get_by_test_id("dialog-confirm").click()
    expect(account).to_contain_text("closed")
    guest.reload()
    expect(guest.get_by_test_id("sign-in")).to_be_visible()
    account.get_by_test_id("open-account").click()
    expect(account.get_by_test_id("close-account")).to_be_visible()
    # A link that was out when the account was closed is worthless; another is made.
    account.get_by_test_id("reset-account").click()
    fresh = made_once(operator).split("/#/join/")[1]
    assert fresh != token
    guest.goto(f"/#/join/{fresh}")
    expect(guest.get_by_test_id("join-name")).to_have_value("max")
    guest.get_by_test_id("join-password").fill("an entirely new one")
    guest.get_by_test_id("door-submit").click()
    expect(guest.get_by_test_id("me")).to_be_visible()
    # Nobody takes the last operator away.
    row(operator, "accounts", OPERATOR).get_by_test_id("unmake-operator").click()
    operator.get_by_test_id("dialog-confirm").click()
    expect(operator.get_by_test_id("accounts-said")).not_to_be_empty()
    expect(row(operator, "accounts", OPERATOR)).to_contain_text("Operator")


def test_a_key_is_shown_once_works_and_is_revoked(operator: Page) -> None:
    operator.goto(f"/#/settings/keys?project={PROJECT}")
    operator.get_by_test_id("new-key").click()
    operator.get_by_test_id("key-label").fill(f"Notebook {HOSTILE}")
    operator.get_by_test_id("key-purpose").select_option("read")
    operator.get_by_test_id("key-days").select_option("30")
    operator.get_by_test_id("dialog-confirm").click()
    key = made_once(operator)
    assert key.startswith("cw_read_")
    assert key not in operator.content()
    api = operator.request
    headers = {"Authorization": f"Bearer {key}", "Cookie": ""}
    assert api.get("/api/v1/runs", headers=headers).status == 200
    listed = row(operator, "keys", "Notebook")
    expect(listed).to_contain_text("Read")
    listed.get_by_test_id("revoke-key").click()
    operator.get_by_test_id("dialog-confirm").click()
    expect(listed.get_by_test_id("key-state")).to_have_text("Revoked")
    assert api.get("/api/v1/runs", headers=headers).status == 401
    # Who operates the service looks at those of all projects together.
    operator.get_by_test_id("settings-project").select_option("")
    expect(listed).to_contain_text(PROJECT)
    assert operator.evaluate("window.owned") is None


def test_keeping_less_is_confirmed_and_keeping_more_is_not(operator: Page) -> None:
    operator.goto(f"/#/settings/retention?project={PROJECT}")
    operator.get_by_test_id("text-days").fill("0")
    expect(operator.get_by_test_id("retention")).to_contain_text("1 or more")
    expect(operator.get_by_test_id("save-retention")).to_be_disabled()
    operator.get_by_test_id("text-days").fill("30")
    expect(operator.get_by_test_id("retention-words")).to_contain_text("removed 30 days after")
    operator.get_by_test_id("save-retention").click()
    expect(operator.get_by_test_id("confirm")).to_contain_text("nobody can bring it back")
    operator.get_by_test_id("dialog-confirm").click()
    expect(operator.get_by_test_id("retention-said")).to_have_text(f"Saved for {PROJECT}.")
    operator.reload()
    expect(operator.get_by_test_id("text-days")).to_have_value("30")
    operator.get_by_test_id("text-days").fill("")
    operator.get_by_test_id("save-retention").click()
    expect(operator.get_by_test_id("retention-said")).to_have_text(f"Saved for {PROJECT}.")
    # Each of both stands in the log, as the one who did it.
    operator.goto("/#/settings/audit?action=retention")
    rows = operator.get_by_test_id("audit-row")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(OPERATOR)
    operator.get_by_test_id("audit-action").select_option("key")
    expect(operator.get_by_test_id("audit-row").filter(has_text="retention")).to_have_count(0)
    with operator.expect_download() as download:
        operator.get_by_test_id("audit-csv").click()
    assert "actor" in Path(download.value.path()).read_text(encoding="utf-8-sig").splitlines()[0]


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_every_part_is_fit_to_be_seen(browser: Browser, guarded: Service, look: Any) -> None:
    axe = AXE.read_text(encoding="utf-8")
    (SHOTS / look).mkdir(parents=True, exist_ok=True)
    size: Any = {"width": 390, "height": 844} if look == "phone" else {"width": 1280, "height": 900}
    scheme = "dark" if look == "dark" else "light"
    with somebody(browser, guarded, viewport=size, color_scheme=scheme, reduced_motion="reduce") as page:

        def shoot(name: str) -> None:
            page.screenshot(path=SHOTS / look / f"{name}.png", full_page=True)
            assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, name
            assert grave_faults(page, axe) == [], name

        page.goto("/#/join/" + "x" * 32)
        expect(page.get_by_test_id("join-ended")).to_be_visible()
        shoot("join-ended")
        page.goto("/")
        page.reload()
        expect(page.get_by_test_id("sign-in")).to_be_visible()
        shoot("sign-in")
        sign_in(page, OPERATOR)
        token = invite(page, "Nia, who looks after the cluster", "editor")
        for part in ("people", "keys", "retention", "audit"):
            page.goto(f"/#/settings/{part}")
            settle(page)
            shoot(part)
        page.get_by_test_id("me").click()
        shoot("me")
        page.goto("/#/settings/keys")
        page.get_by_test_id("new-key").click()
        shoot("key-dialog")
        page.context.clear_cookies()
        page.goto("/")
        page.goto(f"/#/join/{token}")
        expect(page.get_by_test_id("join")).to_be_visible()
        shoot("join")
