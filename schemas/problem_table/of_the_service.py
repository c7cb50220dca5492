"""Problems of the service and its store: unknown resources, conflicts, quotas and failures."""

from __future__ import annotations

from schemas.problem_table.row import ProblemRow

OF_THE_SERVICE = {
    "unknown-batch": ProblemRow(
        404,
        "Unknown batch",
        "There is no batch with this id. It was never stored, was deleted, or has expired.",
        "Check the id, or store the batch again. `expires_at` in its record shows when it expires.",
    ),
    "unknown-map": ProblemRow(
        404,
        "Unknown map",
        "There is no map with this id, name, version or alias.",
        "Check the reference: an id, a name, `name:version` or `name@alias`.",
    ),
    "unknown-map-reference": ProblemRow(
        422,
        "Reference to an unknown map",
        "The options of the request, or a monitor, name a map that does not exist.",
        "Check the reference: an id, a name, `name:version` or `name@alias`.",
    ),
    "unknown-batch-reference": ProblemRow(
        422,
        "Reference to an unknown batch",
        "The options of the request name a batch that was never stored, was deleted, or has expired.",
        "Check the id, or store the batch again.",
    ),
    "unknown-source": ProblemRow(
        422,
        "Unknown source",
        "The setting `sources` of the service has no source of this name, or does not allow the tenant to use it so.",
        "Check the name. The administrator declares sources, who may read them, and whether they may be written to.",
    ),
    "unknown-job": ProblemRow(
        404,
        "Unknown job",
        "There is no job with this id. It never existed, or its record has expired.",
        "Check the id. A fitted map is kept after its job expires; for any other result, send the request again.",
    ),
    "unknown-alias": ProblemRow(
        404,
        "Unknown alias",
        "No map with this name has this alias.",
        "List the aliases with `GET /maps/{name}/aliases`.",
    ),
    "map-in-use": ProblemRow(
        409,
        "An alias points at the map",
        "A version cannot be deleted while an alias points at it.",
        "Point the aliases that the detail names at another version, or delete them, and try again.",
    ),
    "output-shape-changed": ProblemRow(
        409,
        "The new version returns output of another shape",
        "The newest version with this name returns output of a different shape, such as one column instead of "
        "several. Programs may rely on that shape.",
        "Use another name, use the reduction of the earlier versions, or send `allow_shape_change: true`.",
    ),
    "batch-in-use": ProblemRow(
        409,
        "A job needs the batch",
        "A batch cannot be deleted while a queued or running job needs it.",
        "Wait until these jobs have ended, or cancel them, and try again. `GET /jobs` lists them.",
    ),
    "unknown-key": ProblemRow(
        404,
        "Unknown API key",
        "There is no API key with this id.",
        "List the keys with `calibrant keys list`.",
    ),
    "key-conflict": ProblemRow(
        409,
        "The API key cannot be changed",
        "The key is revoked, or already has two valid secrets.",
        "Wait until the older secret has expired, or create another key.",
    ),
    "job-final": ProblemRow(
        409,
        "The job has ended",
        "The job has succeeded or failed and can no longer be cancelled.",
        "There is nothing to do. `GET /jobs/{job}` returns the result.",
    ),
    "job-not-final": ProblemRow(
        409,
        "The job has not ended",
        "A job has no diagrams, and cannot be deleted, until it has ended.",
        "Try again after the number of seconds in `Retry-After`. Requests for diagrams can wait with `Prefer: wait=10`."
        " A job that you want to delete can be cancelled with `POST /jobs/{job}/cancel`.",
    ),
    "job-cancelled": ProblemRow(
        409,
        "The job was cancelled",
        "The job was cancelled while the request waited for it.",
        "Send the request again if you need the result.",
    ),
    "batch-full": ProblemRow(
        413,
        "The batch is full",
        "With these rows, the batch would exceed the allowed number of rows or parts.",
        "Create another batch. If the limit on parts was reached, append more rows per request.",
    ),
    "unknown-monitor": ProblemRow(
        404,
        "Unknown monitor",
        "This tenant has no monitor with this name. It may have been deleted.",
        "List the monitors with `GET /monitors`.",
    ),
    "monitor-exists": ProblemRow(
        409,
        "The monitor exists",
        "There is already a monitor with this name.",
        "Change the monitor with `PATCH /monitors/{name}`, delete it, or choose another name.",
    ),
    "monitor-full": ProblemRow(
        429,
        "The monitor has reached its limit of ids",
        "With these rows, the monitor would hold more ids than its `max_ids` allows. Long requests are ingested in "
        "chunks of 5,000 rows. The chunks before the one that failed are counted, and are not counted again when you "
        "repeat the request.",
        "Send the whole request again after the number of seconds in `Retry-After`. The monitor removes ids after "
        "`horizon` plus `skew` seconds.",
    ),
    "unknown-delivery": ProblemRow(
        404,
        "Unknown delivery",
        "The monitor has no delivery with this id. It never existed, or was removed after 30 days or 1,000 newer "
        "deliveries.",
        "List the deliveries with `GET /monitors/{name}/deliveries`.",
    ),
    "unknown-hook": ProblemRow(
        404,
        "Unknown hook",
        "The monitor has no hook with this name.",
        "List the hooks with `GET /monitors/{name}`.",
    ),
    "unknown-rule": ProblemRow(
        404,
        "Unknown rule",
        "The monitor has no rule with this name.",
        "List the rules with `GET /monitors/{name}/alarms`.",
    ),
    "no-alarm": ProblemRow(
        409,
        "The alarm is not raised",
        "The alarm of the rule is not raised, or was already acknowledged.",
        "There is nothing to do. `GET /monitors/{name}/alarms` shows the current state of the rule.",
    ),
    "unknown-proposal": ProblemRow(
        404,
        "There is no proposal",
        "No challenger of this monitor is waiting to be accepted or rejected.",
        "List earlier proposals with `GET /monitors/{name}/audit`.",
    ),
    "proposal-outdated": ProblemRow(
        409,
        "The proposal is outdated",
        "The alias no longer points at the map that the challenger was compared with.",
        "Reject the proposal, and request a new challenger with `POST /monitors/{name}/recalibrate`.",
    ),
    "quota-exceeded": ProblemRow(
        429,
        "The tenant has reached a quota",
        "The tenant has reached its quota of stored bytes, maps or monitors.",
        "Delete what is no longer needed, wait until batches expire, or ask the operator for a higher quota.",
    ),
    "store-full": ProblemRow(
        507,
        "The store is full",
        "The stored data has reached the budget of the store, the part of it that one tenant may use, or the size of "
        "the store's volume. The detail names the limit that was reached. Nothing of this request was stored. Reads "
        "and deletions are still possible, and accepted jobs are completed.",
        "Delete what is no longer needed, or wait until batches expire, and send the request again. The operator can "
        "give the store more memory (`maxmemory`) or a larger volume (`--store-volume`), or allow requests to use a "
        "larger share of the memory (`--store-budget`).",
    ),
    "too-many-jobs": ProblemRow(
        429,
        "The tenant has too many jobs",
        "The tenant has reached its limit of queued and running jobs.",
        "Try again after the number of seconds in `Retry-After`, cancel jobs, or ask the operator for a higher quota.",
    ),
    "storage-error": ProblemRow(
        500,
        "The store failed",
        "The store returned data that the service cannot read.",
        "Tell the operator: the log has the cause. Repeating the request is unlikely to help.",
    ),
    "later-format": ProblemRow(
        503,
        "The stored data was written by a newer version",
        "The store contains a document in a newer format than this version supports. This happens during an upgrade, "
        "or after a newer version was replaced by an older one.",
        "Send the request again after the number of seconds in `Retry-After`. If the problem remains, the operator "
        "must install a newer version.",
    ),
    "damaged-backup": ProblemRow(
        422,
        "The backup is damaged",
        "The file given to `calibrant restore` is not a backup, or is incomplete. Nothing was written.",
        "Use another copy of the file, or another backup.",
    ),
    "store-not-empty": ProblemRow(
        409,
        "The store is not empty",
        "The store that `calibrant restore` would write to already contains data.",
        "Restore into an empty store, or use `--merge` to add only what is missing; existing data is kept.",
    ),
    "embedded-store-failed": ProblemRow(
        500,
        "The store did not start",
        "The embedded Redis server ended, or was not ready in time.",
        "See `redis.log` in the data folder.",
    ),
    "folder-in-use": ProblemRow(
        500,
        "The data folder is in use",
        "Another service uses the same data folder.",
        "Stop the other service, or give each service a folder of its own with `--data`.",
    ),
    "worker-lost": ProblemRow(
        500,
        "The worker was lost",
        "The job ran several times, and each time its worker process ended. It ran out of memory, or the process or "
        "its machine was stopped.",
        "Send the request again. If it fails again, send fewer rows, or give the workers more memory.",
    ),
    "time-limit": ProblemRow(
        504,
        "The job took too long",
        "A run of the job exceeded `--fit-timeout` or `--evaluate-timeout`.",
        "Send fewer rows, measures or resamples, use a faster method, or ask the operator for a higher limit.",
    ),
    "run-lost": ProblemRow(
        409,
        "The run of the job was replaced",
        "A worker returned a result after the job had been cancelled or assigned to another worker.",
        "There is nothing to do: only workers receive this problem.",
    ),
    "internal-error": ProblemRow(
        500,
        "Internal error",
        "The service failed unexpectedly. The error has been logged.",
        "Tell the operator when the error occurred. If the log shows a fault in Calibrant, please report it.",
    ),
    "deadline-exceeded": ProblemRow(
        503,
        "The response took too long",
        "The response did not begin within `--request-timeout` seconds.",
        "Send fewer rows. For `POST /evaluate` and `POST /maps`, you can also send `Prefer: respond-async`, which "
        "makes a job.",
    ),
    "too-many-streams": ProblemRow(
        503,
        "Too many event streams are open",
        "The limit of open event streams per process was reached. One tenant may use half of the streams, and one API "
        "key a quarter. The detail names the limit that was reached.",
        "Try again after the number of seconds in `Retry-After`, or poll `GET /jobs/{job}`.",
    ),
    "too-many-connections": ProblemRow(
        503,
        "Too many connections from one address",
        "This address has as many connections to one process as `--max-connections-per-address` allows.",
        "Close idle connections and use a connection pool. If clients connect through a reverse proxy, the operator "
        "must list the proxy in `CALIBRANT_TRUSTED_PROXIES`.",
    ),
    "busy": ProblemRow(
        503,
        "The service is busy",
        "The requests of all tenants have reached a limit of the process: concurrent heavy requests (a large body or a "
        "long computation) or those that wait for them, memory for requests, or pictures waiting to be drawn; or the "
        "process stops. The detail names the limit that was reached.",
        "Try again after the number of seconds in `Retry-After`. More API processes serve more requests.",
    ),
    "too-many-requests": ProblemRow(
        429,
        "The tenant has too many requests in progress",
        "The requests of the tenant have reached its half of a limit of the process: concurrent heavy requests (a "
        "large body or a long computation) or those that wait for them, memory for requests, or pictures waiting to be "
        "drawn. The detail names the limit that was reached.",
        "Try again after the number of seconds in `Retry-After`, an estimate of when the present requests of the "
        "tenant will have ended. Send fewer requests at once.",
    ),
    "spool-full": ProblemRow(
        507,
        "There is no room for the temporary file",
        "The volume for temporary files is full, or the files of the tenant occupy half of it.",
        "Send a smaller file, try again later, or send the rows to `POST /batches`, which needs no temporary file. The "
        "operator can enlarge the volume (`TMPDIR`, by default `/tmp`) to at least twice `--max-body-bytes`.",
    ),
    "queue-full": ProblemRow(
        503,
        "The queue is full",
        "The service has reached its limit of queued and running jobs, counted over all tenants.",
        "Try again after the number of seconds in `Retry-After`. More workers shorten the queue.",
    ),
    "unsuitable-store": ProblemRow(
        503,
        "The configuration is unsafe",
        "There are three possible causes. Redis would delete stored data when its memory is full, because its "
        "`maxmemory-policy` is not `noeviction`. Or Redis runs in cluster mode. Or the service listens on a network "
        "address, but no API key exists.",
        "Set `maxmemory-policy noeviction` in Redis, use a Redis that is not a cluster, or run `calibrant keys "
        "create`; the detail says which. The API then recovers without a restart.",
    ),
    "stopping": ProblemRow(
        503,
        "The process is stopping",
        "The process has received SIGTERM. It answers other requests until a readiness probe has received this "
        "response, and completes those in progress.",
        "Send requests to another process.",
    ),
    "store-unavailable": ProblemRow(
        503,
        "The store is unavailable",
        "Redis cannot be reached, is loading its data or refuses writes. The request may not have been applied.",
        "Send the request again after the number of seconds in `Retry-After`.",
    ),
    "issuer-unavailable": ProblemRow(
        503,
        "The issuer of tokens is unavailable",
        "The service has no keys to check the token with: the issuer cannot be reached, and the keys last read are "
        "older than the setting oidc_stale_seconds.",
        "Send the request again after the number of seconds in `Retry-After`, or send an API key.",
    ),
}
