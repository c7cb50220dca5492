"""From a file to its report: what is right is shown, and an error is shown next to its field."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.checks import grave_violations
from tests.browser.files import KINDS, csv_file, forecasts, image, payload, rows
from tests.browser.watched import Visits

REPORT = re.compile(r"/ui/reports/batch_[0-9a-f]+$")
SHOW = "Show the report"


def _drop(page: Page, file: object) -> None:
    page.goto("/")
    page.get_by_label("A file of predictions and labels").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("button", name=SHOW).click()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_becomes_a_report(page: Page, kind: str) -> None:
    _drop(page, KINDS[kind]())
    page.wait_for_url(REPORT)
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"predictions.{kind}")
    expect(page.get_by_text("Verdict", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="ece").first).to_be_visible()
    assert grave_violations(page) == []


@pytest.mark.slow
def test_a_picture_named_as_a_table_is_reported_and_stays_chosen(page: Page, visits: Visits) -> None:
    visits.expected.add(422)
    page.goto("/")
    page.get_by_text("Columns, classes and numbers").click()
    page.get_by_label("Groups").fill("site")
    page.get_by_label("A file of predictions and labels").set_input_files(image())
    page.get_by_role("button", name=SHOW).click()
    hint = page.locator("#file-hint")
    expect(hint).to_have_class("error")
    expect(hint).to_contain_text("image")
    assert page.url.endswith("/")
    chosen = page.get_by_label("A file of predictions and labels")
    assert chosen.evaluate("input => input.files[0].name") == "predictions.csv"
    expect(chosen).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Groups")).to_have_value("site")
    assert grave_violations(page) == []


@pytest.mark.slow
def test_labels_that_are_texts_are_mapped_once_the_mapping_is_confirmed(page: Page, visits: Visits) -> None:
    visits.expected.add(422)
    _drop(page, csv_file(labels=("ham", "spam")))
    expect(page.get_by_label("spam")).to_have_value("")
    expect(page.get_by_label("ham")).to_have_value("")
    assert grave_violations(page) == []
    page.get_by_label("spam").fill("1")
    page.get_by_label("ham").fill("0")
    page.get_by_role("button", name=SHOW).click()
    page.wait_for_url(REPORT)
    expect(page.get_by_text("spam").first).to_be_visible()


@pytest.mark.slow
def test_percentages_are_reported_and_never_converted(page: Page, visits: Visits) -> None:
    visits.expected.add(422)
    _drop(page, csv_file(scale=100.0))
    hint = page.locator("#predictions-hint.error, #scale-hint.error")
    expect(hint).to_contain_text("percent")
    assert page.url.endswith("/")


@pytest.mark.slow
def test_similar_columns_are_offered(page: Page, visits: Visits) -> None:
    visits.expected.add(422)
    page.goto("/")
    page.get_by_text("Columns, classes and numbers").click()
    page.get_by_label("Labels", exact=True).fill("nowhere")
    file = payload("odd.csv", b"first,second,came\n" + b"0.25,0.5,1\n0.5,0.125,0\n0.75,0.5,1\n" * 20)
    page.get_by_label("A file of predictions and labels").set_input_files(file)
    page.get_by_role("button", name=SHOW).click()
    page.locator("select#labels").select_option("came")
    page.get_by_role("button", name=SHOW).click()
    page.get_by_role("checkbox", name="first").check()
    expect(page.get_by_label("Labels", exact=True)).to_have_value("came")
    assert grave_violations(page) == []
    page.get_by_role("button", name=SHOW).click()
    page.wait_for_url(REPORT)


@pytest.mark.slow
def test_columns_chosen_as_models_become_a_comparison(page: Page, visits: Visits) -> None:
    visits.expected.add(422)
    p, y = rows(300)
    lines = [f"{b},{a:.6g},{a**2:.6g},{'' if i < 3 else 'x'}" for i, (a, b) in enumerate(zip(p, y, strict=True))]
    _drop(page, payload("scores.csv", "\n".join(["y,model_a,model_b,note", *lines, ""]).encode()))
    page.get_by_role("checkbox", name="model_a").check()
    page.get_by_role("checkbox", name="model_b").check()
    page.get_by_role("button", name=SHOW).click()
    expect(page.locator("#columns_are-hint")).to_contain_text("do not sum to 1")
    assert grave_violations(page) == []
    page.get_by_label("Several columns of predictions are").select_option("models")
    page.get_by_role("button", name=SHOW).click()
    page.wait_for_url(re.compile(r"/ui/(reports/batch_[0-9a-f]+[?]models=batch_[0-9a-f]+|jobs/job_[0-9a-f]+)$"))
    expect(page.get_by_text("Verdict on the models")).to_be_visible()
    expect(page.get_by_role("heading", name="Comparison of models")).to_be_visible()
    assert page.get_by_role("img").count() == 2
    assert grave_violations(page) == []
    page.get_by_role("link", name="model_b", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("scores.csv: model_b")


@pytest.mark.slow
def test_forecasts_of_a_number_become_a_report_and_a_map_that_calibrates(page: Page, visits: Visits) -> None:
    visits.expected.add(422)
    page.goto("/")
    page.get_by_text("Columns, classes and numbers").click()
    expect(page.get_by_label("Positive label")).to_be_visible()
    expect(page.get_by_label("Level of intervals")).to_be_hidden()
    page.get_by_label("Predictions of").select_option("regression")
    expect(page.get_by_label("Positive label")).to_be_hidden()
    page.get_by_label("Labels", exact=True).fill("nowhere")
    page.get_by_label("A file of predictions and labels").set_input_files(forecasts())
    page.get_by_role("button", name=SHOW).click()
    page.locator("select#labels").select_option("rain")
    expect(page.get_by_label("Predictions of")).to_have_value("regression")
    assert grave_violations(page) == []
    page.get_by_role("button", name=SHOW).click()
    page.wait_for_url(REPORT)
    expect(page.get_by_text("Recommended map")).to_be_visible()
    assert grave_violations(page) == []
    page.get_by_role("button", name="Fit this map").click()
    page.wait_for_url(re.compile(r"/ui/maps/map_[0-9a-f]+$"))
    assert grave_violations(page) == []
    page.get_by_label("A file of predictions", exact=True).set_input_files(forecasts())
    with page.expect_download() as download:
        page.get_by_role("button", name="Calibrate the file").click()
    header = download.value.path().read_text().splitlines()[0]
    assert header == "rain,mean,std,calibrated_mean,calibrated_std"


@pytest.mark.slow
def test_a_file_over_the_limit_is_refused_with_the_limit_named_before_it_is_sent(page: Page) -> None:
    page.goto("/")
    page.locator("#upload").evaluate("form => form.dataset.maxBytes = '1000'")
    page.get_by_label("A file of predictions and labels").set_input_files(csv_file())
    page.get_by_role("button", name=SHOW).click()
    expect(page.locator("#file-hint")).to_contain_text("at most 1,000 bytes")
    assert page.get_by_label("A file of predictions and labels").evaluate("input => input.files.length") == 1


@pytest.mark.slow
def test_the_keyboard_alone_leads_from_a_file_to_its_report(page: Page) -> None:
    # Dialogs of files are intercepted from now on: a browser that gets the request at the key press may open its own.
    page.on("filechooser", lambda _: None)
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    chosen = page.get_by_label("A file of predictions and labels")
    expect(chosen).to_be_focused()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    chooser.value.set_files(csv_file())
    page.keyboard.press("Tab")
    expect(page.get_by_label("Predictions of")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Columns, classes and numbers")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Labels", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type("y")
    page.keyboard.press("Enter")
    page.wait_for_url(REPORT)


def test_without_scripts_the_form_does_the_same(visits: Visits) -> None:
    visits.expected.add(422)
    page = visits.open(java_script_enabled=False)
    _drop(page, image())
    expect(page.locator("#file-hint")).to_contain_text("image")
    _drop(page, csv_file())
    page.wait_for_url(REPORT)
    expect(page.get_by_text("Verdict", exact=True)).to_be_visible()
