"""Alerts on the page: inbox, one alert, marks in figures, rules, channels, notifications; live."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.firing import fire, post
from tests.browser.recording import DATA
from tests.integration.service import Service, base_environment
from tests.server.receivers import HttpReceiver, http_receiver

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
HOSTILE = "<img src=x onerror='window.owned=1'><b>bold</b>"
_RECORDER = """
window.told = [];
class Recorded extends EventTarget {
  static permission = "granted";
  static requestPermission = async () => "granted";
  constructor(title, options) { super(); window.told.push([title, options.tag]); }
  close() {}
}
window.Notification = Recorded;
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose channels may reach this machine."""
    home = tmp_path_factory.mktemp("alerts")
    environment = base_environment(home, DATA) | {"COLLAPSEWATCH_ALLOW_PRIVATE_CHANNELS": "true"}
    running = Service(home, environment, scaled_out=False)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as running:
        yield running


def item(page: Page, title: str) -> Locator:
    return page.get_by_test_id("inbox-item").filter(has_text=title)


def confirm(page: Page) -> None:
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("dialog-confirm")).to_have_count(0)


def test_an_alert_arrives_in_the_inbox_live_and_is_acknowledged_with_a_note(
    page: Page, service: Service
) -> None:
    page.goto("/#/alerts?run=arriving")
    expect(page.get_by_test_id("inbox-empty")).to_contain_text("No alert matches")
    fire(service, "arriving", ["Level is high"])
    card = item(page, "Level is high")
    expect(card).to_be_visible()
    expect(card).to_contain_text("step 1")
    expect(page.get_by_test_id("nav-count")).to_be_visible()
    card.get_by_test_id("do-acknowledge").click()
    page.get_by_test_id("handle-note").fill(f"looking into it {HOSTILE}")
    page.get_by_test_id("handle-name").fill("Ada")
    confirm(page)
    expect(page.get_by_test_id("inbox-said")).to_have_text("1 alert acknowledged.")
    expect(card.get_by_test_id("inbox-standing")).to_contain_text("Acknowledged")
    page.get_by_test_id("tab-open").click()
    expect(card).to_have_count(0)
    assert "status=open" in page.url
    page.go_back()
    card.get_by_test_id("inbox-title").click()
    history = page.get_by_test_id("alert-history")
    expect(history).to_contain_text("Acknowledged by Ada")
    expect(history).to_contain_text("<b>bold</b>")
    assert page.evaluate("window.owned") is None


def test_several_alerts_are_snoozed_resolved_and_reopened_together(page: Page, service: Service) -> None:
    fire(service, "several", ["Several one", "Several two", "Several three"])
    page.goto("/#/alerts?run=several")
    expect(page.get_by_test_id("inbox-item")).to_have_count(3)
    for title in ("Several one", "Several two"):
        item(page, title).get_by_test_id("inbox-pick").check()
    bar = page.get_by_test_id("pick-bar")
    expect(bar).to_contain_text("2 alerts selected")
    bar.get_by_test_id("do-snooze").click()
    page.get_by_test_id("snooze-own").check()
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("handle-dialog")).to_contain_text("Say for how many hours")
    page.get_by_test_id("snooze-hours").fill("1.5")
    confirm(page)
    expect(item(page, "Several one").get_by_test_id("inbox-standing")).to_contain_text("Snoozed")
    expect(item(page, "Several three").get_by_test_id("inbox-standing")).to_have_text("Open")
    page.get_by_test_id("pick-all").check()
    bar.get_by_test_id("do-resolve").click()
    confirm(page)
    expect(page.get_by_test_id("inbox-said")).to_have_text("3 alerts resolved.")
    expect(page.get_by_test_id("inbox-empty")).to_be_visible()
    page.get_by_test_id("tab-resolved").click()
    expect(page.get_by_test_id("inbox-item")).to_have_count(3)
    item(page, "Several two").get_by_test_id("do-reopen").click()
    confirm(page)
    expect(page.get_by_test_id("inbox-item")).to_have_count(2)


def test_the_inbox_is_worked_by_keyboard(page: Page, service: Service) -> None:
    fire(service, "keys", ["Keys one", "Keys two"])
    page.goto("/#/alerts?run=keys")
    expect(page.get_by_test_id("inbox-item")).to_have_count(2)
    page.get_by_test_id("inbox-title").first.focus()
    page.keyboard.press("ArrowDown")
    second = page.get_by_test_id("inbox-item").nth(1)
    expect(second.get_by_test_id("inbox-title")).to_be_focused()
    page.keyboard.press("x")
    expect(second.get_by_test_id("inbox-pick")).to_be_checked()
    page.keyboard.press("a")
    expect(page.get_by_test_id("handle-note")).to_be_focused()
    page.keyboard.type("by hand, x and a are only letters here")
    page.keyboard.press("Enter")
    expect(second.get_by_test_id("inbox-standing")).to_contain_text("Acknowledged")
    # The dialog gives the focus back, and pressing on goes on from there.
    expect(second.get_by_test_id("inbox-title")).to_be_focused()
    page.keyboard.press("r")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("inbox-item")).to_have_count(1)
    expect(page.get_by_test_id("inbox-title").first).to_be_focused()
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("handle-dialog")).to_have_count(0)
    expect(page.get_by_test_id("inbox-title").first).to_be_focused()


def test_the_filters_of_the_inbox_live_in_its_address(page: Page, service: Service) -> None:
    fire(service, "filtered", ["Filter apple", "Filter pear"])
    page.goto("/#/alerts?run=filtered")
    expect(page.get_by_test_id("inbox-item")).to_have_count(2)
    page.get_by_test_id("filter-text").fill("pear")
    expect(page.get_by_test_id("inbox-item")).to_have_count(1)
    assert "q=pear" in page.url
    page.get_by_test_id("filter-severity").select_option("critical")
    expect(page.get_by_test_id("inbox-empty")).to_contain_text("No alert matches these filters")
    page.reload()
    expect(page.get_by_test_id("filter-severity")).to_have_value("critical")
    expect(page.get_by_test_id("filter-text")).to_have_value("pear")
    page.get_by_test_id("inbox-empty").get_by_role("link").click()
    expect(page.get_by_test_id("inbox-item").first).to_be_visible()


def test_older_alerts_come_on_demand(page: Page, service: Service) -> None:
    fire(service, "many", [f"Many {number}" for number in range(53)])
    page.goto("/#/alerts?run=many")
    expect(page.get_by_test_id("inbox-item")).to_have_count(50)
    page.get_by_test_id("inbox-more").click()
    expect(page.get_by_test_id("inbox-item")).to_have_count(53)
    expect(page.get_by_test_id("inbox-more")).to_be_hidden()


def test_an_alert_shows_its_evidence_and_leads_to_its_run(page: Page, collapsed_run: str) -> None:
    page.goto(f"/#/alerts?run={collapsed_run}")
    page.get_by_test_id("inbox-title").filter(has_text="Input dependence").first.click()
    expect(page.get_by_test_id("alert-title")).to_contain_text("Input dependence fell")
    expect(page.get_by_test_id("alert-budget")).to_contain_text("evaluations")
    expect(page.get_by_test_id("alert-signals")).to_contain_text("Reward")
    skill = page.get_by_test_id("figure-moment-first_turn-retrieval_skill")
    expect(skill.locator(".js-plotly-plot")).to_be_visible()
    expect(skill).to_contain_text("baseline 0.")
    expect(skill).to_contain_text("◆")
    expect(page.get_by_test_id("alert-prompts")).to_contain_text("chance")
    expect(page.get_by_test_id("alert-phrases")).to_contain_text("without a model")
    expect(page.get_by_test_id("alert-history")).to_contain_text("Became graver")
    page.get_by_test_id("alert-run").click()
    expect(page.get_by_test_id("run-name")).to_have_text("collapsing")


def test_a_sign_in_a_figure_of_the_run_opens_its_alert(page: Page, collapsed_run: str) -> None:
    page.goto(f"/#/runs/{collapsed_run}")
    sign = page.get_by_test_id("figure-retrieval").locator(".annotation").filter(has_text="◆")
    expect(sign).to_have_count(1)
    sign.locator("text").click()
    expect(page.get_by_test_id("alert-title")).to_contain_text("about chance")


def test_an_alert_that_is_not_there_is_said_to_be_not_there(browser: Browser, service: Service) -> None:
    context = browser.new_context(base_url=service.url)
    page = context.new_page()
    page.goto("/#/alerts/999999")
    expect(page.locator("#main")).to_contain_text("There is no alert with the number 999999.")
    context.close()


def test_a_rule_is_previewed_saved_changed_and_deleted(page: Page, collapsed_run: str) -> None:
    page.goto("/#/alerts")
    page.get_by_test_id("to-rules").click()
    page.get_by_test_id("new-rule").click()
    page.get_by_test_id("rule-name").fill("Accuracy is low")
    page.get_by_test_id("rule-metric").fill("retrieval_accuracy")
    page.get_by_test_id("rule-operator").select_option("drop")
    page.get_by_test_id("rule-threshold").fill("3")
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("rule-dialog")).to_contain_text("is a share in (0, 1], got 3")
    expect(page.get_by_test_id("rule-threshold")).to_be_focused()
    page.get_by_test_id("rule-threshold").fill("0,5")
    page.get_by_test_id("rule-for_evaluations").fill("2")
    page.get_by_test_id("rule-preview").click()
    preview = page.get_by_test_id("preview")
    expect(preview.get_by_test_id("preview-words")).to_contain_text("It would have fired")
    expect(preview).to_contain_text(re.compile(r"step \d+: 0\.\d+ against 0\.\d+"))
    confirm(page)
    rule = page.get_by_test_id("own-rule").filter(has_text="Accuracy is low")
    expect(rule).to_contain_text("fell from its baseline by more than 50 %, 2 evaluations in a row")
    rule.get_by_role("button", name="Edit").click()
    page.get_by_test_id("rule-severity").select_option("critical")
    confirm(page)
    expect(rule).to_contain_text("Critical")
    rule.get_by_test_id("delete-rule").click()
    page.get_by_role("button", name="Cancel").click()
    expect(rule).to_be_visible()
    rule.get_by_test_id("delete-rule").click()
    confirm(page)
    expect(rule).to_have_count(0)


def test_a_detector_is_switched_off_for_one_project_and_back(page: Page, collapsed_run: str) -> None:
    page.goto("/#/alerts/rules?project=recorded")
    expect(page.get_by_test_id("error-budget")).to_contain_text(
        "one false critical alert in 1,000 evaluations"
    )
    detector = page.locator('[data-testid=detector][data-rule="reward_drop"]')
    expect(detector).to_contain_text("at most 1 in")
    detector.get_by_test_id("detector-enabled").uncheck()
    expect(detector).to_have_class(re.compile("rule-off"))
    detector.get_by_test_id("detector-severity").select_option("info")
    expect(detector.get_by_test_id("detector-forget")).to_be_visible()
    page.get_by_test_id("detector-project").select_option("")
    expect(detector.get_by_test_id("detector-enabled")).to_be_checked()
    page.get_by_test_id("detector-project").select_option("recorded")
    detector.get_by_test_id("detector-forget").click()
    expect(detector.get_by_test_id("detector-enabled")).to_be_checked()
    expect(detector.get_by_test_id("detector-forget")).to_have_count(0)


def test_faults_of_an_imported_file_stand_at_their_line(page: Page, service: Service) -> None:
    page.goto("/#/alerts/rules")
    text = '[[rule]]\nname = "Imported"\nmetric = "kl"\noperator = ">"\nthreshold = "much"\n'
    page.get_by_test_id("rule-file").fill(text)
    page.get_by_test_id("import-rules").click()
    fault = page.get_by_test_id("import-errors").get_by_role("button", name="Line 5")
    fault.click()
    area = "document.querySelector('[data-testid=rule-file]')"
    chosen = page.evaluate(f"{area}.value.slice({area}.selectionStart, {area}.selectionEnd)")
    assert chosen == 'threshold = "much"'
    page.get_by_test_id("rule-file").fill(text.replace('"much"', "0.1"))
    page.get_by_test_id("import-rules").click()
    expect(page.get_by_test_id("import-said")).to_have_text("Imported: 1 rule created.")
    expect(page.get_by_test_id("own-rule").filter(has_text="Imported")).to_be_visible()
    page.get_by_test_id("export-rules").click()
    expect(page.get_by_test_id("rule-file")).to_have_value(re.compile('name = "Imported"'))


def test_a_channel_is_set_up_and_tried_and_keeps_its_secrets(
    page: Page, service: Service, receiver: HttpReceiver
) -> None:
    page.goto("/#/settings")
    page.get_by_test_id("settings-channels").click()
    page.get_by_test_id("add-channel").click()
    page.get_by_test_id("channel-name").fill("ops hook")
    page.get_by_test_id("channel-url").fill(f"http://127.0.0.1:{receiver.port}/hook?token=t0ps3cret")
    page.get_by_test_id("dialog-confirm").click()
    secret = page.get_by_test_id("secret-dialog").locator("code").inner_text()
    assert len(secret) >= 16
    confirm(page)
    channel = page.get_by_test_id("channel").filter(has_text="ops hook")
    channel.get_by_test_id("test-channel").click()
    expect(channel.get_by_test_id("test-outcome")).to_contain_text("was taken: HTTP 200")
    assert [got.path for got in receiver.got] == ["/hook?token=t0ps3cret"]
    channel.locator("summary").click()
    expect(channel.get_by_test_id("delivery")).to_contain_text("Test message")
    channel.get_by_test_id("edit-channel").click()
    expect(page.get_by_test_id("channel-url")).to_have_value("")
    page.get_by_test_id("channel-least").select_option("critical")
    confirm(page)
    expect(channel).to_contain_text("critical alerts only")
    shown = page.content()
    assert "t0ps3cret" not in shown
    assert secret not in shown
    channel.get_by_test_id("delete-channel").click()
    confirm(page)
    expect(page.get_by_test_id("no-channels")).to_be_visible()


def test_the_history_of_an_alert_says_which_channels_were_told(
    page: Page, service: Service, receiver: HttpReceiver
) -> None:
    name = "history hook"
    draft = {"name": name, "kind": "webhook", "url": receiver.url(), "project": "ruled"}
    channel = post(service, "/channels", draft)["channel"]
    fire(service, "told", ["Told of"])
    service.wait_until(lambda: len(receiver.got) == 1, "the receiver was told")
    page.goto("/#/alerts?run=told")
    page.get_by_test_id("inbox-title").click()
    expect(page.get_by_test_id("alert-history")).to_contain_text(f"Told the channel {name}")
    path = f"/api/v1/channels/{channel['channel_id']}"
    httpx.delete(f"{service.url}{path}", timeout=60).raise_for_status()


def test_a_critical_alert_is_notified_once_over_all_tabs_and_only_by_consent(
    browser: Browser, service: Service
) -> None:
    context = browser.new_context(base_url=service.url)
    context.add_init_script(_RECORDER)
    tabs = [context.new_page(), context.new_page()]
    tabs[0].goto("/#/settings/channels")
    tabs[1].goto("/#/alerts")
    for tab in tabs:
        expect(tab.get_by_test_id("live-state")).to_contain_text("live")
    fire(service, "unasked", ["Before consent"], severity="critical")
    expect(item(tabs[1], "Before consent")).to_be_visible()
    assert [tab.evaluate("window.told") for tab in tabs] == [[], []]
    tabs[0].get_by_test_id("notice-switch").check()
    expect(tabs[0].get_by_test_id("notice-state")).to_contain_text("On in this browser")
    fire(service, "mild", ["A mere warning"])
    fire(service, "asked", ["After consent"], severity="critical")
    expect(item(tabs[1], "After consent")).to_be_visible()

    def told() -> list[str]:
        return [title for tab in tabs for title, _ in tab.evaluate("window.told")]

    service.wait_until(lambda: bool(told()), "one tab tells of it")
    # So that the other one had its chance.
    tabs[1].wait_for_timeout(500)
    assert told() == ["Critical: After consent"]
    context.close()


def test_titles_and_notes_never_become_markup(page: Page, service: Service) -> None:
    fire(service, "hostile", [HOSTILE])
    page.goto("/#/alerts?run=hostile")
    expect(page.get_by_test_id("inbox-title")).to_have_text(HOSTILE)
    page.get_by_test_id("inbox-title").click()
    expect(page.get_by_test_id("alert-title")).to_have_text(HOSTILE)
    expect(page.locator("[data-testid=alert-figures] .js-plotly-plot").first).to_be_visible()
    page.goto("/#/alerts/rules")
    expect(page.get_by_test_id("own-rules")).to_contain_text("<b>bold</b>")
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_of_alerts_fit_their_screen(
    browser: Browser, service: Service, collapsed_run: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    alert_id = service.get("/alerts", run=collapsed_run)["items"][0]["alert_id"]
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    for name, path, shown in (
        ("alerts", "/#/alerts?status=all", "inbox-item"),
        ("alert", f"/#/alerts/{alert_id}", "alert-prompts"),
        ("rules", "/#/alerts/rules", "detector"),
        ("channels", "/#/settings/channels", "no-channels"),
    ):
        page.goto(path)
        expect(page.get_by_test_id(shown).first).to_be_visible()
        if name == "alert":
            expect(page.locator("[data-testid=alert-figures] .js-plotly-plot").first).to_be_visible()
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0
        page.screenshot(path=SHOTS / f"{name}-{theme}-{width}.png", full_page=name != "alerts")
    context.close()
