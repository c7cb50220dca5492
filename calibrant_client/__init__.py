"""The Python client of a Calibrant server: ``from calibrant_client import Calibrant``."""

from calibrant_client.client import Calibrant
from calibrant_client.errors import JobFailed, ProblemResponse

__all__ = ["Calibrant", "JobFailed", "ProblemResponse"]
