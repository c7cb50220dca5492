"""The Python client of a Calibrant server: ``from calibrant_client import Calibrant, AsyncCalibrant``."""

from calibrant_client.async_client import AsyncCalibrant
from calibrant_client.client import Calibrant
from calibrant_client.errors import JobFailed, JobTimeout, ProblemResponse, UnusableRows
from calibrant_client.events import Event

__all__ = ["AsyncCalibrant", "Calibrant", "Event", "JobFailed", "JobTimeout", "ProblemResponse", "UnusableRows"]
