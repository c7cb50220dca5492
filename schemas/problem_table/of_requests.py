"""Problems of the request itself: authentication, routing, headers and the format of the body."""

from __future__ import annotations

from schemas.problem_table.row import ProblemRow

OF_REQUESTS = {
    "bad-request": ProblemRow(
        400,
        "The request cannot be read",
        "The request is not valid HTTP, has no `Host`, or has a header twice that may occur only once, such as `Host`, "
        "`Origin` or `Authorization`; or the connection closed before the body was complete.",
        "Send the request again with an HTTP library. If a proxy adds headers, let it replace them.",
    ),
    "malformed-json": ProblemRow(
        400,
        "The body is not valid JSON",
        "The body has a syntax error, or is not UTF-8. JSON has no NaN, Infinity, comments or trailing commas.",
        "Check the body at the byte that the detail names. If it contains NaN, leave out those rows.",
    ),
    "malformed-npz": ProblemRow(
        400,
        "The body is not an NPZ archive of plain arrays",
        "The archive is damaged, uses a compression method other than deflate, or contains something other than "
        "arrays named after the fields. Arrays must be numeric; only `groups`, `clusters`, `by` and `times` may "
        "contain strings.",
        "Write the archive with `numpy.savez`, name the arrays after the fields, and send the options in the query.",
    ),
    "malformed-npy": ProblemRow(
        400,
        "The body is not a numeric .npy array",
        "The body was not written by `numpy.save`, is truncated, or contains Python objects.",
        "Save only the predictions, with `numpy.save` and `allow_pickle=False`.",
    ),
    "malformed-arrow": ProblemRow(
        400,
        "The body is not a readable Arrow IPC stream",
        "The body is in the Arrow file format instead of the stream format, is truncated, or is damaged.",
        "Write the table with `pyarrow.ipc.new_stream`.",
    ),
    "malformed-parquet": ProblemRow(
        400,
        "The body is not a readable Parquet file",
        "The file is truncated or damaged, or a column has an encoding that is not supported.",
        "Write the table with `pyarrow.parquet.write_table` and its default options.",
    ),
    "malformed-csv": ProblemRow(
        400,
        "The body is not readable CSV",
        "The text is not UTF-8, the header is missing, or a row and the header have different numbers of cells.",
        "Send UTF-8 text with a header. Every row must have as many cells as the header; the detail names the row "
        "that does not.",
    ),
    "malformed-encoding": ProblemRow(
        400,
        "The body does not match its Content-Encoding",
        "The compressed body is damaged or truncated, or is not compressed with the encoding that the header names.",
        "Compress the whole body once and name that encoding, or send the body uncompressed.",
    ),
    "unauthorized": ProblemRow(
        401,
        "An API key is required",
        "The request has no API key, or its key is unknown, expired or revoked.",
        "Send the header `Authorization: Bearer KEY` with a key from the operator of the service, or with a token if "
        "the service accepts those of an issuer.",
    ),
    "invalid-token": ProblemRow(
        401,
        "The bearer token is not valid",
        "The token is malformed, expired, not yet valid, for another audience, from another issuer, or not signed with "
        "a key that the issuer publishes, or its claims do not name a subject and a tenant.",
        "Get a new token from the issuer for the audience of this service.",
    ),
    "foreign-origin": ProblemRow(
        403,
        "Only local requests are allowed",
        "Without API keys, the service accepts requests from this machine only. The request came from another machine "
        "or from a web page of another origin, or its `Host` header names another host.",
        "Use 127.0.0.1, localhost or [::1] as the host, or run the service with API keys.",
    ),
    "forged-request": ProblemRow(
        403,
        "The request did not come from the web page",
        "The request has the cookie of the web page or sends one of its forms, but it comes from another origin or "
        "lacks the token of the page.",
        "Reload the page and try again. Programs must send an API key in the `Authorization` header.",
    ),
    "forbidden": ProblemRow(
        403,
        "The API key lacks the required scope",
        "The key is valid, but it lacks the scope of this call, which the detail and the header `WWW-Authenticate` "
        "name. `read` covers the scopes that store nothing permanently, `write` also those that store, change, promote "
        "or delete something, and `admin` also the metrics of the service.",
        "Use a key with the scope that the detail names.",
    ),
    "not-found": ProblemRow(
        404,
        "Not found",
        "There is no endpoint at this path, or the job or monitor has no such diagram, chart or report.",
        "Compare the path with the API reference. An id in a path must not be empty or contain a slash.",
    ),
    "no-bins": ProblemRow(
        404,
        "The map has no diagram",
        "A map's diagram needs the bins of the rows that it was fitted to. Imported maps, and maps fitted by old "
        "versions, have no bins. They can still be applied.",
        "Draw a diagram of other rows: `POST /diagrams` with `map`.",
    ),
    "method-not-allowed": ProblemRow(
        405,
        "Method not allowed",
        "The path exists, but does not support this HTTP method.",
        "Use one of the methods in the `Allow` header of the response.",
    ),
    "not-acceptable": ProblemRow(
        406,
        "Not acceptable",
        "This endpoint supports none of the types in the `Accept` header.",
        "Accept `application/json`, or one of the types that the detail names.",
    ),
    "request-timeout": ProblemRow(
        408,
        "The request took too long to arrive",
        "The headers were not complete after `--header-timeout` seconds, the body was not complete after "
        "`--request-timeout` seconds, or the body arrived more slowly than `--min-upload-rate` allows.",
        "Use a faster connection, compress the body, or append the rows to a batch in several requests.",
    ),
    "url-too-long": ProblemRow(
        414,
        "The URL is too long",
        "The URL is longer than the service accepts.",
        "Move the options or rows from the query to the request body.",
    ),
    "headers-too-large": ProblemRow(
        431,
        "The headers are too large",
        "The request has too many headers or trailers, or its headers, trailers or chunk extensions are too long.",
        "Send fewer or shorter headers. In a browser, delete old cookies of this host.",
    ),
    "unsupported-transfer-coding": ProblemRow(
        501,
        "The transfer coding is not supported",
        "The header `Transfer-Encoding` names a coding besides `chunked`, such as `gzip`.",
        "Compress the body, and name the compression in `Content-Encoding`.",
    ),
    "idempotency-conflict": ProblemRow(
        409,
        "The idempotency key belongs to another request",
        "The idempotency key was already used with another method, path, query, body or other headers.",
        "Use a new key for each new request. When you retry a request, send it unchanged.",
    ),
    "idempotency-in-progress": ProblemRow(
        409,
        "The first request is still in progress",
        "A request with this idempotency key is still being processed.",
        "Repeat the request after the number of seconds in `Retry-After`.",
    ),
    "precondition-failed": ProblemRow(
        412,
        "The precondition failed",
        "The value of `If-Match` does not match the current state, or `If-None-Match: *` was sent and the object "
        "already exists.",
        "Read the current state and its `ETag`, then send that `ETag` in `If-Match`.",
    ),
    "too-large": ProblemRow(
        413,
        "The body is too large",
        "The body, its unpacked size, its number of JSON values or the memory that it needs exceeds a limit of the "
        "service.",
        "Send fewer rows per request, or smaller numbers such as float32. The limit on JSON values does not apply to "
        "NPZ, Arrow and Parquet. The operator can raise `--max-body-bytes`, `--max-unpacked-bytes`, "
        "`--max-request-memory` and `--max-json-values`.",
    ),
    "unsupported-media-type": ProblemRow(
        415,
        "Unsupported content type",
        "The `Content-Type` header is missing or names a type that the service does not support.",
        "Set `Content-Type` to one of the types that the detail lists.",
    ),
    "invalid-field": ProblemRow(
        422,
        "A field is missing, unknown or invalid",
        "A required field is missing, or a field is unknown, has the wrong type, is out of range or contradicts "
        "another field.",
        "Correct the field that the first entry of `errors` points to. The OpenAPI document gives the type and range "
        "of every field.",
    ),
    "hook-refused": ProblemRow(
        422,
        "A webhook is not allowed",
        "The URL of a webhook is not a valid http or https URL, or contains a user name, password or fragment. Or the "
        "settings `--webhook-hosts` and `--webhook-private-addresses` do not allow its scheme, host, port or private "
        "address.",
        "Correct the field that the first entry of `errors` points to, or ask the operator to allow the host.",
    ),
    "invalid-cursor": ProblemRow(
        422,
        "The cursor is invalid",
        "The cursor does not come from a response of this endpoint.",
        "Send the `next` value of the previous page unchanged, or start without a cursor.",
    ),
    "rate-limited": ProblemRow(
        429,
        "Too many requests",
        "The API key has reached its limit of requests per minute.",
        "Wait for the number of seconds in `Retry-After`. Send more rows per request, or ask the operator for a "
        "higher limit.",
    ),
}
