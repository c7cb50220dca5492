"""The application of a host: its maps, and the calls of each platform."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.held_map import HeldMap
from backend.kinds import work_bytes
from backend.store.errors import StorageError, UnknownBatch, UnknownMap
from backend.telemetry.observed import note_rows
from calibrant.core.errors import CalibrationError
from service.callers import LOCAL
from service.compression import Compress
from service.errors import InvalidField, MethodNotAllowed, NotFound, of_header
from service.formats.answers import respond_in_pieces
from service.formats.body import INLINE_BYTES, bounded, content_type, read_encoding, unpack
from service.formats.format import Body, BodyLimits
from service.formats.media import JSON
from service.guard import Guard, RequestMemory, Slots
from service.headers import choose, read_header
from service.hosts.rows import (
    CSV,
    NPY,
    WITH_HEADER,
    HostOutput,
    InstanceRows,
    read_csv_rows,
    read_instances,
    read_npy_rows,
    renamed,
    rows_of,
    write_scored,
)
from service.inference import infer
from service.inference.errors import AS_INFERENCE_ERRORS, UNKNOWN_CALL, uses_protocol
from service.inference.models import NO_CONTEXT, SERVER, Model, RowContext, find_model, metadata
from service.observe import METRICS_PATH, Observe
from service.problems import refused
from service.root_path import RootPath
from service.scoring import ScoringContext, ScoringProcess, calibrate
from service.settings import ScoringSettings
from service.short_bodies import read_short, score_short
from service.threads import run_in_thread, work_for

if TYPE_CHECKING:
    from backend.store.store import Store

# --- The process and the context of a request


class HostProcess(ScoringProcess):
    """The maps of a host by name, and what its requests share."""

    def __init__(self, settings: ScoringSettings, maps: Mapping[str, HeldMap]) -> None:
        super().__init__(settings)
        self.maps = maps


@dataclass(frozen=True)
class HostContext(ScoringContext):
    """The context of a request to a host."""

    process: HostProcess

    @property
    def store(self) -> Store:
        """Raise ``UnknownBatch``: only a batch needs the store."""
        raise UnknownBatch("must be absent: a host has no stored batches; send the predictions", "/batch")

    def held_map(self, ref: str) -> HeldMap | None:
        """The map with a name."""
        return self.process.maps.get(ref)

    async def reach(self) -> None:
        """Return: there is no store."""

    def find_map(self, ref: str) -> HeldMap:
        """The map with a name; raises ``UnknownMap``."""
        held = self.process.maps.get(ref)
        if held is None:
            raise UnknownMap("there is no map with this reference", "/map")
        return held

    def map_versions(self, name: str) -> list[int]:  # noqa: ARG002 - the maps of a host have no versions
        """No versions."""
        return []

    def only_model(self, name: str | None, how: str) -> Model:
        """The model with a name, or the only one; raises ``UnknownMap``, and ``InvalidField`` that says ``how``."""
        if name is None and len(self.process.maps) > 1:
            raise InvalidField(f"this host has several maps; name one {how}")
        return find_model(self, next(iter(self.process.maps)) if name is None else name)


# --- KServe v1 and Vertex AI, which have the same body, and SageMaker

_IN_BODY = 'in "parameters": {"map": NAME}'
#: A header that SageMaker passes on.
_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
_IN_HEADER = f"in the header {_ATTRIBUTES}: map=NAME"
_SEED = re.compile(r"[0-9]{1,10}", re.ASCII)
_ALPHA = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e-?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)


async def _predict(request: Request, here: HostContext, name: str | None = None) -> Response:
    """Apply the map with a name, or the one that the body names, to the instances of a JSON body."""
    short = await _predict_short(request, here, name)
    if isinstance(short, Response):
        return short
    request = short
    content_type(read_header(request, b"content-type") or JSON, (JSON,))
    return await _scored(request, here, JSON, partial(_read_json, here, name, _IN_BODY))


async def _invoke(request: Request, here: HostContext) -> Response:
    """Apply the only map, or the one that a header names, to a body of any type that SageMaker's clients send."""
    short = await _predict_short(request, here)
    if isinstance(short, Response):
        return short
    request = short
    sent = read_header(request, b"content-type")
    kind = content_type(sent or JSON, (JSON, CSV, NPY))
    accepted = choose(read_header(request, b"accept"), [kind, *(other for other in (JSON, CSV, NPY) if other != kind)])
    name, context = _read_attributes(read_header(request, _ATTRIBUTES.lower().encode()))
    if kind == JSON:
        return await _scored(request, here, accepted, partial(_read_json, here, name, _IN_HEADER, context=context))
    model = here.only_model(name, _IN_HEADER)
    header = WITH_HEADER in sent.lower().replace(" ", "").split(";")[1:]
    if kind == CSV:
        read = partial(read_csv_rows, names=model.class_names, context=context, header=header)
    else:
        read = partial(read_npy_rows, context=context)
    return await _scored(request, here, accepted, lambda body, limits: (model, read(body, limits)))


async def _predict_short(request: Request, here: HostContext, name: str | None = None) -> Response | Request:
    """The response to a few probabilities and nothing else; otherwise the request, with what was read put back."""
    document, n_strings, request = await read_short(request, here.settings)
    if document.keys() != {"instances"} or n_strings != 1:
        return request
    maps = here.process.maps
    held = maps.get(name) if name is not None else next(iter(maps.values())) if len(maps) == 1 else None
    predictions = None if held is None else score_short(held, document["instances"], here.settings)
    return request if predictions is None else _json({"predictions": predictions})


def _read_attributes(header: str) -> tuple[str | None, RowContext]:
    """The name of a map, and seed, alpha and bounds, in the header that SageMaker passes on."""
    values: dict[str, str] = {}
    for part in header.split(";") if header else ():
        key, _, value = (text.strip() for text in part.partition("="))
        known = {
            "map": value,
            "seed": _SEED.fullmatch(value),
            "alpha": _ALPHA.fullmatch(value),
            "bounds": value in ("true", "false"),
        }
        if key in values or not known.get(key):
            text = "must have map=NAME, seed=NUMBER, alpha=NUMBER or bounds=true, with semicolons between them"
            raise of_header(InvalidField, _ATTRIBUTES, text)
        values[key] = value
    seed = int(values["seed"]) if "seed" in values else None
    if seed is not None and seed >= 2**32:
        raise of_header(InvalidField, _ATTRIBUTES, "must have a seed below 2^32")
    alpha = float(values["alpha"]) if "alpha" in values else None
    return values.get("map"), RowContext(seed=seed, alpha=alpha, bounds=values.get("bounds") == "true")


def _read_json(
    here: HostContext, name: str | None, how: str, body: Body, limits: BodyLimits, context: RowContext = NO_CONTEXT
) -> tuple[Model, InstanceRows]:
    instances = read_instances(body, limits)
    if name is not None and instances.map not in (None, name):
        raise InvalidField.at("/parameters/map", "must be absent: the request already names a map")
    own = instances.context
    for field in ("seed", "alpha"):
        stated = getattr(context, field)
        if stated is not None and getattr(own, field) not in (None, stated):
            raise InvalidField.at(f"/parameters/{field}", f"must be absent: the request already has this {field}")
    model = here.only_model(name or instances.map, how)
    own = own._replace(
        seed=own.seed if context.seed is None else context.seed,
        alpha=own.alpha if context.alpha is None else context.alpha,
        bounds=own.bounds or context.bounds,
    )
    return model, rows_of(instances._replace(context=own), limits, model.class_names)


async def _scored(
    request: Request, here: HostContext, kind: str, read: Callable[[Body, BodyLimits], tuple[Model, InstanceRows]]
) -> Response:
    """Read a body and respond with the calibrated predictions."""
    encoding = read_encoding(read_header(request, b"content-encoding"))
    body = await bounded(request, here.settings.max_body_bytes)
    if encoding is not None:  # its unpacked size can be anything up to the limit
        await Slots.wait_for(request.scope)

    def score() -> HostOutput:
        limits = BodyLimits.of(here.settings, partial(RequestMemory.reserve_for, here.scope))
        model, rows = read(body if encoding is None else unpack(body, encoding, limits), limits)
        here.reserve(work_bytes(rows.array.size))
        note_rows(rows.array.shape)
        wanted = model.outputs if rows.context.bounds else model.outputs[:1]
        try:
            outputs = model.apply(rows.array, wanted, rows.context)
        except CalibrationError as error:
            raise renamed(error, rows.field, by_field=rows.by_field) from error
        if rows.context.bounds:
            return HostOutput(np.column_stack([outputs[name] for name in wanted]), wanted)
        classes, values = tuple[str | int, ...](), outputs[wanted[0]]
        if values.dtype == np.bool_:
            names = model.fitted.class_names or ()
            # Several labels of each row have no names: those of the map are its two outcomes.
            is_one_label = rows.array.ndim == (1 if model.fitted.n_classes is None else 2)
            classes = names if names and is_one_label else tuple(range(values.shape[1]))
        return HostOutput(values, rows.names if values.ndim > 1 else None, classes)

    is_short = encoding is None and len(body) <= INLINE_BYTES  # cheaper than the switch to a thread
    scored = score() if is_short else await run_in_thread(score)
    pieces = write_scored(kind, scored)
    media = f"{kind}; {WITH_HEADER}" if kind == CSV and scored.names is not None else kind
    if is_short:
        return Response(b"".join(pieces), media_type=media)
    return await respond_in_pieces(request, media, pieces, scored.values.nbytes, {})


# --- Calls without a body


def _json(content: Any) -> Response:
    return Response(orjson.dumps(content), media_type=JSON)


async def _constant(content: Any, _request: Request, _here: HostContext) -> Response:
    return _json(content)


async def _when_ready(content: Any, _request: Request, here: HostContext) -> Response:
    here.process.check_ending()
    return _json(content)


async def _list(_request: Request, here: HostContext) -> Response:
    return _json({"models": list(here.process.maps)})


async def _ready(_request: Request, here: HostContext, name: str) -> Response:
    names = find_model(here, name).class_names
    return _json({"name": name, "ready": True} | ({} if names is None else {"class_names": names}))


async def _describe(_request: Request, here: HostContext, name: str, version: str | None = None) -> Response:
    return _json(metadata(here, name, version))


async def _model_ready(_request: Request, here: HostContext, name: str, version: str | None = None) -> Response:
    find_model(here, name, version)
    return _json({"name": name, "ready": True})


async def _infer(request: Request, here: HostContext, name: str, version: str | None = None) -> Response:
    return await infer.respond(request, here, name, version)


async def _metrics(_request: Request, here: HostContext) -> Response:
    return Response(await run_in_thread(here.process.metrics.text), media_type=CONTENT_TYPE_PLAIN_0_0_4)


# --- Routes

Handler = Callable[..., Awaitable[Response]]


class HostRoute(Route):
    """A call: its method, path and function, and whether its errors are those of the inference protocols."""

    def __init__(self, method: str, path: str, handle: Handler, *, inference_errors: bool = False) -> None:
        super().__init__(path, handle, methods=[method])
        self.handle_call = handle
        self.inference_errors = inference_errors


_LIVE = partial(_constant, {"status": "ok"})
_READY = partial(_when_ready, {"status": "ok"})
_V2 = "/v2/models/{name}"
_VERSION = f"{_V2}/versions/{{version}}"


def _routes() -> list[HostRoute]:
    return [
        # A path is that of the first route that it matches.
        HostRoute("POST", "/v1/models/{name}:predict", _predict, inference_errors=True),
        *(HostRoute("POST", f"{path}/infer", _infer) for path in (_V2, _VERSION)),
        HostRoute("POST", "/calibrate", calibrate),
        HostRoute("GET", "/health/live", _LIVE),
        HostRoute("GET", "/health/ready", _READY),
        HostRoute("GET", METRICS_PATH, _metrics),
        HostRoute("GET", "/v2", partial(_constant, SERVER.model_dump())),
        HostRoute("GET", "/v2/health/live", partial(_constant, {"live": True})),
        HostRoute("GET", "/v2/health/ready", partial(_when_ready, {"live": True, "ready": True})),
        *(HostRoute("GET", path, _describe) for path in (_V2, _VERSION)),
        *(HostRoute("GET", f"{path}/ready", _model_ready) for path in (_V2, _VERSION)),
        HostRoute("GET", "/v1/models", _list, inference_errors=True),
        HostRoute("GET", "/v1/models/{name}", _ready, inference_errors=True),
        HostRoute("GET", "/ping", _READY),
        HostRoute("POST", "/invocations", _invoke),
    ]


def vertex_routes(health: str | None, predict: str | None) -> list[HostRoute]:
    """The calls at the paths that Vertex AI names."""
    routes = [] if health is None else [HostRoute("GET", health, _READY, inference_errors=True)]
    return routes if predict is None else [*routes, HostRoute("POST", predict, _predict, inference_errors=True)]


class HostRouter:
    """Finds the route of a request, and responds with what it returns or with the problem of its error."""

    def __init__(self, process: HostProcess, routes: list[HostRoute]) -> None:
        self._process = process
        self.routes = routes
        self._exact = {(method, route.path): route for route in routes for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        scope["state"].update(caller=LOCAL)
        work_for(scope)
        try:
            response = await self._respond(scope, receive)
        except (CalibrationError, StorageError) as error:
            response = refused(error, scope)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        path, parameters = scope["path"], dict[str, str]()
        route = self._exact.get((scope["method"], path))  # without the comparison with every route
        if route is None:
            scope[AS_INFERENCE_ERRORS] = path.startswith("/v1/")
            route, parameters = self._match(scope)
        scope["route"] = route
        scope[AS_INFERENCE_ERRORS] = route.inference_errors
        return await route.handle_call(Request(scope, receive), HostContext(self._process, LOCAL, scope), **parameters)

    def _match(self, scope: Scope) -> tuple[HostRoute, dict[str, str]]:
        """The route of a request and the parameters of its path; raises ``NotFound`` and ``MethodNotAllowed``."""
        for route in self.routes:
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                return route, child_scope["path_params"]
            if match is Match.PARTIAL:
                methods = ", ".join(sorted(route.methods or ()))
                raise MethodNotAllowed(f"this path supports the methods {methods}").with_headers({"Allow": methods})
        raise NotFound(UNKNOWN_CALL if uses_protocol(scope["path"]) else "there is nothing at this path")


class HostApp:
    """The application of a host, by ASGI."""

    def __init__(self, process: HostProcess, *others: HostRoute) -> None:
        settings = process.settings
        self.state = SimpleNamespace(process=process)
        self.router = HostRouter(process, [*others, *_routes()])
        guarded = Guard(
            self.router,
            seconds=settings.request_timeout,
            slots=process.slots,
            memory=process.memory,
            light=process.light,
            rate=settings.min_upload_rate,
        )
        self._app: ASGIApp = Observe(Compress(guarded), requests=process.metrics.requests)
        if settings.root_path:
            self._app = RootPath(self._app, settings.root_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        scope["app"] = self
        await self._app(scope, receive, send)
