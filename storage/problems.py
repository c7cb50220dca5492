"""The problem document of an error, for answers and for jobs alike."""

from __future__ import annotations

from calibrant.errors import CalibrationError
from schemas.problem_table import problem
from schemas.problems import Problem, ProblemError
from storage.errors import StorageError


def problem_of(error: CalibrationError | StorageError) -> Problem:
    """Build the document of an error; its code is its row in the table."""
    if isinstance(error, CalibrationError):
        places = [ProblemError(pointer=o.pointer, detail=o.detail) for o in error.offences]
    else:
        places = [] if error.pointer is None else [ProblemError(pointer=error.pointer, detail=error.detail)]
    return problem(error.code, error.detail, places)
