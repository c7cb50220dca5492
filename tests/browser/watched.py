"""A page whose every misdeed is noted: an error on its console, a request that fails or that leaves the service."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

#: What Chromium and htmx say on the console of an answer that is itself looked at.
_OF_AN_ANSWER = ("Failed to load resource: the server responded with a status of", "Response Status Error Code")
#: A request that ended because its page was left, or because it became a download.
_LEFT = "net::ERR_ABORTED"


class Visits:
    """Opens pages of the service, each in a context of its own, and notes what none of them may do.

    ``expected`` are the statuses from 400 on that a test wants to see.
    """

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self._contexts: list[BrowserContext] = []
        self.expected: set[int] = set()
        self.misdeeds: list[str] = []

    def open(self, **options: Any) -> Page:
        """A page of a new visitor; ``options`` are those of a context, such as ``java_script_enabled``."""
        context = self._browser.new_context(base_url=self._url, **options)
        context.set_default_timeout(600_000)
        self._contexts.append(context)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.misdeeds.append(f"error: {error.error}"))
        context.on("request", self._request)
        context.on("requestfailed", self._failed)
        context.on("response", self._response)
        return context.new_page()

    def close(self) -> None:
        """Close every page."""
        for context in self._contexts:
            context.close()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_OF_AN_ANSWER):
            self.misdeeds.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        own, asked = urlsplit(self._url), urlsplit(request.url)
        if asked.scheme not in ("data", "blob") and (own.scheme, own.netloc) != (asked.scheme, asked.netloc):
            self.misdeeds.append(f"request to another origin: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != _LEFT:
            self.misdeeds.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.misdeeds.append(f"{response.status}: {response.request.method} {response.url}")
