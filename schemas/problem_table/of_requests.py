"""Problems of a request itself: who sends it, where it goes, how its body is written."""

from __future__ import annotations

from schemas.problem_table.row import Row

OF_REQUESTS = {
    "bad-request": Row(
        400,
        "The request cannot be read",
        "The request breaks the rules of HTTP, or its body broke off before its end.",
        "Send it anew, with an HTTP library rather than by hand.",
    ),
    "malformed-json": Row(
        400,
        "The body is not JSON",
        "The body is no JSON text: NaN, Infinity, comments and a comma before a closing bracket are not JSON.",
        "Look at the byte that the detail names. Leave rows without a prediction out, or send a binary format.",
    ),
    "malformed-npz": Row(
        400,
        "The body is not an NPZ archive of plain arrays",
        "The archive is damaged, compressed by another method than deflate, or holds something else than "
        "arrays of plain numbers (and of text, for `groups`) under the names of fields.",
        "Write it with `numpy.savez`, its arrays named as the fields, and send the options in the query.",
    ),
    "malformed-npy": Row(
        400,
        "The body is not one .npy array of plain numbers",
        "The bytes are not what `numpy.save` writes, are cut off, or hold objects.",
        "Save the predictions alone with `numpy.save` and `allow_pickle=False`.",
    ),
    "malformed-arrow": Row(
        400,
        "The body is not an Arrow IPC stream that can be read",
        "The bytes are the Arrow file format, are cut off, or are damaged.",
        "Write the table with `pyarrow.ipc.new_stream`.",
    ),
    "malformed-parquet": Row(
        400,
        "The body is not a Parquet file that can be read",
        "The bytes are cut off or damaged, or a column is encoded in a way that could unpack without bound.",
        "Write the table with `pyarrow.parquet.write_table` and its defaults.",
    ),
    "malformed-csv": Row(
        400,
        "The body is not CSV that can be read",
        "The text is not UTF-8, has no header, or a row has another number of cells than the header.",
        "Send UTF-8 with a header row and as many cells in the row named.",
    ),
    "malformed-encoding": Row(
        400,
        "The body is not what its Content-Encoding says",
        "The compressed bytes are damaged, cut off, or of another encoding than the header says.",
        "Compress the whole body once and name that encoding, or send it as it is.",
    ),
    "unauthorized": Row(
        401,
        "An API key is needed",
        "The service runs with API keys, and the request brought none, or none that is known.",
        "Send the header `Authorization: Bearer KEY` with a key that the service's operator gave you.",
    ),
    "foreign-origin": Row(
        403,
        "Only this machine is served",
        "The service runs without API keys, so it serves this machine alone, and the request named another host, "
        "or came from a web page of another origin.",
        "Call it as 127.0.0.1, localhost or [::1], or run it with API keys.",
    ),
    "forged-request": Row(
        403,
        "The request did not come from the page",
        "It was sent with the cookie of the web page, or to one of its forms, from another origin or without the "
        "page's token.",
        "Load the page again and repeat. A program sends an API key in `Authorization` instead.",
    ),
    "forbidden": Row(
        403,
        "The API key may not do this",
        "The key is live, but its scope does not hold this call: read for calls that store nothing to last, write for "
        "the others, admin for the service's own figures.",
        "Send a key with the scope that the detail names.",
    ),
    "not-found": Row(
        404,
        "There is nothing here",
        "No call of the service has this path.",
        "Compare the path with the table of calls; an id in it is not empty and holds no slash.",
    ),
    "no-bins": Row(
        404,
        "The map has no diagram",
        "The map was imported, or fitted by an early version: its document is complete, but of the rows of its fit "
        "nothing is known that could be drawn.",
        "Draw it on rows of your own: `POST /diagrams` with `map`.",
    ),
    "method-not-allowed": Row(
        405,
        "This method is not allowed here",
        "The path exists, but not for this HTTP method.",
        "Use one of the methods in the answer's `Allow` header.",
    ),
    "not-acceptable": Row(
        406,
        "No accepted type can be answered",
        "The `Accept` header names none of the types in which this call answers.",
        "Accept `application/json`, or one of the types named in the detail.",
    ),
    "request-timeout": Row(
        408,
        "The request did not come in time",
        "The head of the request was not complete after ten seconds, its body was not complete at its deadline, or the "
        "body arrived more slowly than `--min-upload-rate` allows.",
        "Send it faster, or in parts that are appended to a batch.",
    ),
    "url-too-long": Row(
        414,
        "The URL is too long",
        "The URL has more bytes than the service reads.",
        "Send the options in a JSON body, or the rows in the body instead of the query.",
    ),
    "headers-too-large": Row(
        431,
        "The headers are too large",
        "The headers or trailers of the request are too many or have too many bytes, or its chunk extensions have.",
        "Send fewer or shorter headers; a browser may hold old cookies of this host.",
    ),
    "idempotency-conflict": Row(
        409,
        "The idempotency key is another request's",
        "An idempotency key was sent again with another method, path, query, content type or body.",
        "Make a new key for every new request; send a request again as it was.",
    ),
    "idempotency-in-progress": Row(
        409,
        "The first request is still at work",
        "An idempotency key was sent again before its first request was answered.",
        "Send it again after the seconds of `Retry-After`.",
    ),
    "precondition-failed": Row(
        412,
        "The precondition does not hold",
        "The `If-Match` names another state than the present one, or `If-None-Match: *` met something that exists.",
        "Read the present state with its `ETag`, decide again, and send that `ETag` in `If-Match`.",
    ),
    "too-large": Row(
        413,
        "The body is too large",
        "The body, what it unpacks to, or the number of its JSON values is larger than the service's limit.",
        "Send fewer rows at once, or numbers of a narrower type. The limit of JSON values does not hold for the binary "
        "formats NPZ, Arrow and Parquet. Or have the operator raise `--max-body-bytes`, `--max-unpacked-bytes` or "
        "`--max-json-values`.",
    ),
    "unsupported-media-type": Row(
        415,
        "Unsupported content type",
        "The `Content-Type` is missing, or is none that the service reads.",
        "Name the body's content type exactly; the detail lists those that are read.",
    ),
    "invalid-field": Row(
        422,
        "A field is missing, unknown or invalid",
        "A field is missing, is not one of this call, has the wrong type, is outside its range or contradicts another.",
        "Mend the field that the first of `errors` points to; the OpenAPI document tells every field's type and range.",
    ),
    "hook-refused": Row(
        422,
        "A webhook is refused",
        "The URL of a hook is not https, holds a user or a password, is written in an odd way, or leads to a host or "
        "an address that the service's settings `webhook_hosts` and `webhook_private_addresses` do not admit; or its "
        "secret is none, or two hooks have one name.",
        "Mend the field that the first of `errors` points to, or have the operator admit the host.",
    ),
    "invalid-cursor": Row(
        422,
        "The cursor is invalid",
        "The cursor of a list is none that a page gave.",
        "Send the `next` of the page before as it is, or begin without a cursor.",
    ),
    "rate-limited": Row(
        429,
        "Too many requests",
        "The API key has sent all requests that it may send in this minute.",
        "Wait for the seconds of `Retry-After`; send larger batches, or have the key's limit raised.",
    ),
}
