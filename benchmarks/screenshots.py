"""Screenshots of the page with the demo's two classifiers. Writes docs/pictures/page-*.png."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, FilePayload, Page, sync_playwright

from calibrant.cli.commands.sample import Classifier, boosted, naive_bayes
from calibrant.client import Calibrant
from service.stack import stack
from tests.browser.checks import DECODED
from tests.browser.chromium import find_chromium, flags

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1100, 780
#: Colours of a picture: a page has few, and its file stays small.
COLOURS = 128

#: Waits until the progress bar of a job reaches this value.
_HALF = """() => new Promise(resolve => {
  const look = () => {
    const bar = document.querySelector('#job progress');
    if (bar && bar.position >= 0.4) resolve();
  };
  const job = document.getElementById('job');
  new MutationObserver(look).observe(job, {childList: true, subtree: true, attributes: true});
  look();
})"""


class Camera:
    """One visitor, whose pages are saved as screenshots."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def shoot(self, name: str, *, height: int = HEIGHT) -> None:
        """Save a screenshot of the top of the page."""
        self.page.set_viewport_size({"width": WIDTH, "height": height})
        self.page.evaluate(DECODED)
        # Hiding the caret would add a style that the page's security policy forbids.
        taken = Image.open(io.BytesIO(self.page.screenshot(caret="initial", animations="allow")))
        out = FOLDER / f"page-{name}.png"
        taken.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True)
        print(f"{out.relative_to(ROOT)}: {out.stat().st_size // 1000} kB")


def file_of(classifier: Classifier, labels: tuple[str, str]) -> FilePayload:
    """Predictions of an event as a CSV file, with two text labels."""
    rows = zip(classifier.predictions.tolist(), classifier.labels.tolist(), strict=True)
    text = "p,label\n" + "".join(f"{p:.6f},{labels[y]}\n" for p, y in rows)
    return {"name": "adaboost.csv", "mimeType": "text/csv", "buffer": text.encode()}


def home_and_report(camera: Camera, fitted: Classifier) -> str:
    """The front page, its question about text labels, and the report; returns the id of the batch."""
    page = camera.page
    page.goto("/")
    camera.shoot("home")
    page.get_by_label("A file of predictions and labels").set_input_files(file_of(fitted, ("below", "five or more")))
    page.get_by_role("button", name="Show the report").click()
    for number, label in enumerate(("below", "five or more")):
        page.get_by_label(label, exact=True).fill(str(number))
    camera.shoot("mapping")
    page.get_by_role("button", name="Show the report").click()
    page.wait_for_url("**/ui/reports/*")
    camera.shoot("report", height=1250)
    return str(re.search(r"batch_[0-9a-f]+", page.url)[0])  # type: ignore[index]


def job(camera: Camera, url: str, digits: Classifier) -> None:
    """A long fit with a curve for each of ten classes, about half done."""
    with Calibrant(url) as client:
        batch = client.upload(digits.predictions, digits.labels).id
    asked = {"batch": batch, "method": "averaged", "reduction": "classwise", "name": "digits"}
    accepted = httpx.post(f"{url}/maps", json=asked, timeout=60).json()
    camera.page.goto(f"/ui/jobs/{accepted['id']}")
    camera.page.evaluate(_HALF)
    camera.shoot("job", height=480)
    camera.page.get_by_role("link", name="Show the map").wait_for(timeout=120_000)


def registry_and_comparison(camera: Camera, url: str, batch: str, unseen: Classifier) -> None:
    """Versions of a name with their diagrams, and the maps compared on held-out rows."""
    with Calibrant(url) as client:
        for method in ("platt", "isotonic", "averaged"):
            client.fit(method, batch, name="five-or-more", timeout=60)
        other = client.upload(np.round(unseen.predictions, 6), unseen.labels).id
    httpx.put(f"{url}/maps/five-or-more/aliases/champion", json={"version": 3}, timeout=60).raise_for_status()
    camera.page.goto("/ui/maps/five-or-more")
    camera.shoot("registry", height=1000)
    camera.page.goto("/ui/maps/five-or-more:3")
    camera.page.locator("#explained").evaluate("heading => heading.scrollIntoView()")
    camera.shoot("map", height=1000)
    camera.page.goto(f"/ui/reports/{other}?" + "&".join(f"maps=five-or-more:{version}" for version in (1, 2, 3)))
    camera.shoot("compare", height=1000)


def monitor(camera: Camera, url: str) -> None:
    """A monitor of a model whose predictions became too low, after its alarm."""
    fields = {"name": "churn", "bucket": 3600, "description": "Customers who leave within a month."}
    fields["rules"] = [{"kind": "threshold", "name": "ece", "measure": "ece", "window": "day", "above": 0.05}]
    httpx.post(f"{url}/monitors", json=fields, timeout=60).raise_for_status()
    random, n, hours = np.random.default_rng(1), 12_000, 48
    p, at = random.beta(2, 5, n), np.sort(random.uniform(-hours, 0, n))
    y = random.random(n) < np.clip(p + 0.12 * (at > -hours / 3), 0, 1)
    with Calibrant(url) as client:
        groups = random.choice(["north", "south", "online"], n).tolist()
        client.send_rows("churn", p, y, timestamps=time.time() + at * 3600, groups=groups)
    camera.page.goto("/ui/monitors/churn")
    camera.page.get_by_role("button", name="Acknowledge the alarm of ece").wait_for(timeout=60_000)
    camera.shoot("monitor", height=1500)


@contextlib.contextmanager
def running() -> Iterator[tuple[str, Browser]]:
    """A separate service, and a browser."""
    with (
        tempfile.TemporaryDirectory(prefix="calibrant-shots-") as folder,
        (Path(folder) / "log").open("ab") as log,
        stack(host="127.0.0.1", port=0, data=Path(folder) / "data", log=log) as service,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find_chromium(playwright.chromium), args=flags()) as browser,
    ):
        yield service.url, browser


def main() -> None:
    """Take every screenshot."""
    FOLDER.mkdir(exist_ok=True)
    binary, digits = boosted(), naive_bayes()
    fitted, unseen = binary.halves()
    with running() as (url, browser), browser.new_context(base_url=url) as context:
        camera = Camera(context.new_page())
        batch = home_and_report(camera, fitted)
        job(camera, url, digits)
        registry_and_comparison(camera, url, batch, unseen)
        monitor(camera, url)


if __name__ == "__main__":
    main()
