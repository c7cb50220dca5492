"""The HTTP client of a Calibrant server, synchronous (``Calibrant``) and asynchronous (``AsyncCalibrant``)."""

from calibrant.errors import requires

with requires("client", "the client"):
    from calibrant.client.async_client import AsyncCalibrant
    from calibrant.client.client import Calibrant
    from calibrant.client.errors import JobFailed, JobTimeout, ProblemResponse
    from calibrant.client.events import Event
    from calibrant.errors import UnusableRows

__all__ = ["AsyncCalibrant", "Calibrant", "Event", "JobFailed", "JobTimeout", "ProblemResponse", "UnusableRows"]
