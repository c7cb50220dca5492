"""One declaration per HTTP call, in its route module.

Its route, its access rule, its part of the OpenAPI document and its methods of the clients are made from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from fastapi.params import Depends
from fastapi.routing import APIRoute
from pydantic import BaseModel

from schemas.keys import SCOPES, WRITING, Scope
from schemas.problem_table.of_numbers import OF_NUMBERS
from service.formats.catalogue import READERS
from service.formats.media import JSON, MERGE_PATCH
from service.routing import Direct, Idempotent

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Schema: TypeAlias = dict[str, Any]

#: Whom a call admits: ``open`` and ``personal`` calls need no API key, and ``personal`` ones depend on who is signed
#: in; ``any`` needs a key with any scope, the others one with this scope.
Access = Literal["open", "personal", "any"] | Scope

# --- Problems that several calls can return

#: Problems of rows in a body.
OF_ROWS = (
    "not-a-number",
    "not-finite",
    "out-of-range",
    "wrong-shape",
    "length-mismatch",
    "empty-batch",
    "invalid-label",
    "invalid-weight",
    "invalid-option",
)
#: Problems of rows in a body or a batch that may become a job.
OF_QUEUED_ROWS = (*OF_ROWS, "unknown-batch-reference", "quota-exceeded", "too-many-jobs", "queue-full")
#: Problems of rows in the files of a source, and of data sets that are written to one.
OF_SOURCES = ("unknown-source", "refused-path")
#: Further problems of predictive distributions.
OF_FORECASTS = ("crossing-quantiles", "invalid-variance", "prediction-kind-mismatch")
#: Problems of every evaluation of rows, whatever the form of the response.
OF_EVALUATIONS = (
    *OF_QUEUED_ROWS,
    "unknown-map-reference",
    "unknown-measure",
    "unknown-diagram",
    "unknown-reduction",
    "scale-mismatch",
    "prediction-kind-mismatch",
    "not-acceptable",
)

#: Problems of a job that ended without a result, which a request that waits for the job returns.
OF_ENDED_JOBS = (
    *(code for code in OF_NUMBERS if code != "calibration-error"),
    "unknown-batch-reference",
    "unknown-map-reference",
    "quota-exceeded",
    "store-full",
    "output-shape-changed",
    "job-cancelled",
    "worker-lost",
    "time-limit",
)


# --- The declaration

#: Divides the docstring of a call's function into the description and the examples of the methods of the clients.
_EXAMPLES = "\n\nExamples\n--------\n"


@dataclass(frozen=True)
class Body:
    """A body of one of the models with content type ``media``, or of another type.

    It is for the document alone: routes read bodies themselves (ADR 12). With ``options_in_query``, the options of
    bodies of other types are in the query.
    """

    models: tuple[type[BaseModel], ...]
    others: Collection[str] = ()
    media: str = JSON
    options_in_query: bool = False


def rows(*models: type[BaseModel]) -> Body:
    """A body with rows: of one of the models, or binary with the options in the query."""
    return Body(models, tuple(READERS), options_in_query=True)


def fields(model: type[BaseModel]) -> Body:
    """A JSON body without rows."""
    return Body((model,))


def changes(model: type[BaseModel]) -> Body:
    """A JSON merge patch."""
    return Body((model,), media=MERGE_PATCH)


#: Rows of samples.
PREDICTIONS = [0.02, 0.11, 0.18, 0.24, 0.35, 0.42, 0.57, 0.66, 0.71, 0.83, 0.9, 0.97]
LABELS = [0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1]


class Sample(NamedTuple):
    """An example of a call that needs nothing stored; others are in ``service/examples/calls.py``."""

    name: str
    summary: str
    body: Mapping[str, Any] | None = None
    status: int = 200
    path: Mapping[str, str] = MappingProxyType({})
    query: Mapping[str, str] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})


def model_of(answer: Any) -> Any:
    """The model, or union of models, of an answer as a call declares it."""
    if not isinstance(answer, str):
        return answer
    from schemas import results

    return reduce(or_, [getattr(results, name) for name in answer.split(" | ")])


@dataclass(frozen=True)
class ClientMethod:
    """A method of the clients that sends a call without a body, with fields, or with rows; ``make reference`` makes it.

    It returns the whole answer, a field of it or, unless it ``returns``, nothing; or it iterates over all pages of a
    list. ``query`` is fixed. ``answer`` is needed for a call with several, and ``summary`` if that of the call is about
    something else. Of the examples of the call it has those blocks that contain it.

    Its arguments are the fields of the query, of the body, or of ``rows``, the options of a kind of predictions, by
    default those of the first model of the body: by position the ``first`` one, or those that a body without rows
    requires; none of those that it is ``without``, and some ``renamed``. It returns ``media`` instead of the answer, if
    that is not JSON.
    """

    name: str
    _: KW_ONLY
    answer_field: str | None = None
    returns: bool = True
    query: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None
    summary: str | None = None
    rows: type[BaseModel] | None = None
    first: str | None = None
    without: Collection[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    media: str | None = None


@dataclass(frozen=True)
class Call:
    """A call. Only what differs from the defaults is declared; its function has the name and the description.

    Attributes
    ----------
    answer
        The model of a successful JSON response, or a union of models; as text those of ``schemas.results``, which a
        start does not load.
    media
        Content types of successful responses other than JSON.
    meaning
        Description of the successful response.
    located
        What the header ``Location`` of the response leads to.
    tagged
        Whether the response has an ``ETag``; ``conditional`` calls also evaluate ``If-Match`` and ``If-None-Match``.
    links
        Whether a page has a header ``Link`` to the next one.
    queues
        Why the call responds with a job instead.
    waits
        Whether the call can wait for the end of a job.
    ends
        Why the call responds without content instead.
    problems
        Codes of the problems that are specific to the call.
    headers, sends
        Descriptions of special headers of the request and of the successful response by name.
    samples
        Examples that need nothing stored.
    access
        The scope that a key needs, or whom else the call admits; the default is that of its module.
    frees
        Whether a call that changes something works in a full store, because it frees room, as DELETE does.
    needs_store
        Whether the call is refused while the store is unavailable.
    from_memory
        Whether the call is nevertheless answered then for maps in the memory of the process.
    client
        Name of the method of the clients, or several methods. Those with a stream are written by hand.
    tag
        Section of the document, by default that of the module.
    """

    method: str
    path: str
    _: KW_ONLY
    body: Body | None = None
    query: type[BaseModel] | None = None
    headers: Mapping[str, Schema] = field(default_factory=dict)
    sends: Mapping[str, Schema] = field(default_factory=dict)
    answer: Any = None
    media: Sequence[str] = ()
    status: int = 200
    meaning: str = "Successful Response"
    located: str | None = None
    tagged: bool = False
    conditional: bool = False
    links: bool = True
    queues: str | None = None
    waits: bool = False
    ends: str | None = None
    problems: Sequence[str] = ()
    samples: Sequence[Sample] = ()
    access: Access | None = None
    frees: bool = False
    needs_store: bool = True
    from_memory: bool = False
    client: str | Sequence[ClientMethod] = ()
    tag: str = ""
    name: str = ""
    description: str = ""
    client_examples: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def client_methods(self) -> Sequence[ClientMethod]:
        """The generated methods of the clients."""
        return [ClientMethod(self.client)] if isinstance(self.client, str) else self.client

    @property
    def is_open(self) -> bool:
        """Whether the call needs no API key."""
        return self.access in ("open", "personal")

    @property
    def needed_scope(self) -> Scope | None:
        """The scope that a key needs; None if any key may make the call, or none is needed."""
        return next((scope for scope in SCOPES if scope == self.access), None)

    @property
    def frees_room(self) -> bool:
        """Whether the call works in a full store although it changes something."""
        return self.frees or self.method == "DELETE"

    @property
    def stores(self) -> bool:
        """Whether the call needs room in the store."""
        changes = self.access in WRITING or (self.access == "admin" and self.method != "GET")
        return changes and not self.frees_room

    @property
    def changes_maps(self) -> bool:
        """Whether the call may change which map a reference leads to."""
        return self.method != "GET" and self.access in ("maps:write", "maps:promote")

    @property
    def is_paged(self) -> bool:
        """Whether the answer is a page of a list."""
        return self.query is not None and "cursor" in self.query.model_fields

    @property
    def is_documented(self) -> bool:
        """Whether the call is part of the API; pages are not."""
        return bool(self.tag)


class Calls:
    """The calls of a module, with their routes.

    ``tag`` is their section of the document; pages have none. Calls with GET need the scope ``reads``, the others
    ``writes``, if they do not declare another. Each POST of the API supports ``Idempotency-Key``. ``direct`` calls skip
    FastAPI.
    """

    def __init__(
        self,
        tag: str = "",
        *,
        reads: Access = "maps:read",
        writes: Scope = "maps:write",
        dependencies: Sequence[Depends] = (),
        direct: bool = False,
    ) -> None:
        self._tag = tag
        self._reads: Access = reads
        self._writes: Access = writes
        self._dependencies = dependencies
        self._direct = direct
        self.routes: list[tuple[Call, APIRoute]] = []

    def add(self, call: Call) -> Callable[[Endpoint], Endpoint]:
        """Declare a call and its function."""

        def declare(endpoint: Endpoint) -> Endpoint:
            description, _, examples = (inspect.getdoc(endpoint) or "").partition(_EXAMPLES)
            access = call.access or (self._reads if call.method == "GET" else self._writes)
            whole = replace(call, tag=call.tag or self._tag, name=endpoint.__name__, access=access)
            whole = replace(whole, description=description, client_examples=examples)
            self.routes.append((whole, self._route(whole, endpoint)))
            return endpoint

        return declare

    def _route(self, call: Call, endpoint: Callable[..., Any]) -> APIRoute:
        kind = APIRoute
        if call.method == "POST" and call.is_documented:
            kind = Direct if self._direct else Idempotent
        route = kind(
            call.path,
            endpoint,
            methods=[call.method],
            response_model=None,
            dependencies=self._dependencies,
            include_in_schema=False,
        )
        if isinstance(route, Idempotent):
            route.from_memory = call.from_memory
        return route
