"""Problems of the service and its store: missing things, and failures."""

from __future__ import annotations

from schemas.problem_table.row import Row

OF_THE_SERVICE = {
    "unknown-batch": Row(
        404,
        "Unknown batch",
        "There is no batch of this id: it was never stored, was deleted, or has expired.",
        "Check the id, or store the batch again; its record tells when it expires.",
    ),
    "unknown-map": Row(
        404,
        "Unknown map",
        "There is no map of this id, name or version.",
        "Check the reference: an id, a name, or `name:version`.",
    ),
    "unknown-job": Row(
        404,
        "Unknown job",
        "There is no job of this id: it never was, or it ended so long ago that it is forgotten.",
        "Check the id; what a fit made stays as its map, and anything else is had by posting the request again.",
    ),
    "unknown-alias": Row(
        404,
        "Unknown alias",
        "The map's name has no alias of this name.",
        "List the aliases: `GET /maps/{name}/aliases`.",
    ),
    "map-in-use": Row(
        409,
        "An alias points at the map",
        "A version at which aliases point cannot be deleted.",
        "Point the aliases that the detail names at another version, or delete them, and try again.",
    ),
    "batch-in-use": Row(
        409,
        "A job needs the batch",
        "A batch that queued or running jobs need cannot be deleted.",
        "Wait until these jobs have ended, or cancel them, and try again; `GET /jobs` lists them.",
    ),
    "unknown-key": Row(
        404,
        "Unknown API key",
        "No API key has this id.",
        "See `calibrant keys list`.",
    ),
    "key-conflict": Row(
        409,
        "The API key does not allow this",
        "The key is revoked, or it has two live secrets already.",
        "Wait until the older secret has ended, or make another key.",
    ),
    "job-final": Row(
        409,
        "The job has ended",
        "A job that has succeeded or failed was to be cancelled.",
        "Nothing is left to do; `GET /jobs/{job_id}` tells its result.",
    ),
    "job-not-final": Row(
        409,
        "The job has not ended",
        "A picture of a job's report was requested before there is a report.",
        "Ask again after the seconds in `Retry-After`, or send `Prefer: wait=10`.",
    ),
    "job-cancelled": Row(
        409,
        "The job was cancelled",
        "Someone cancelled the job while its caller waited for it.",
        "Post the request again if its result is wanted.",
    ),
    "batch-full": Row(
        413,
        "The batch is full",
        "With these rows the batch would have more rows or parts than one may have.",
        "Begin another batch; append more rows at once.",
    ),
    "unknown-monitor": Row(
        404,
        "There is no such monitor",
        "No monitor of this tenant has this name; it may have been deleted.",
        "List those that there are by `GET /monitors`.",
    ),
    "monitor-exists": Row(
        409,
        "The monitor exists",
        "A monitor of this name is there already.",
        "Change it by `PATCH /monitors/{name}`, delete it, or choose another name.",
    ),
    "monitor-full": Row(
        429,
        "The monitor knows as many ids as it may",
        "With these rows more ids would be known at once than the monitor's `max_ids`. Of a long request the pieces "
        "before them, of 5,000 rows, stay counted; their ids are known, and count once when all is sent again.",
        "Send the rows again after the seconds in `Retry-After`: ids are forgotten when their horizon has passed.",
    ),
    "unknown-delivery": Row(
        404,
        "Unknown delivery",
        "The monitor has no delivery of this id: it never was, or it is forgotten after 30 days or 1,000 newer ones.",
        "List those that there are: `GET /monitors/{name}/deliveries`.",
    ),
    "unknown-hook": Row(
        404,
        "Unknown hook",
        "The monitor has no hook of this name.",
        "Look at its hooks: `GET /monitors/{name}`.",
    ),
    "unknown-rule": Row(
        404,
        "There is no such rule",
        "The monitor has no rule of this name.",
        "Take a name that `GET /monitors/{name}/alarms` lists.",
    ),
    "no-alarm": Row(
        409,
        "The alarm is not raised",
        "The rule's alarm is not raised, or was acknowledged already.",
        "Nothing is to be done; `GET /monitors/{name}/alarms` tells what the rule says now.",
    ),
    "unknown-proposal": Row(
        404,
        "There is no proposal",
        "No challenger of this monitor waits to be accepted or rejected.",
        "Look into `GET /monitors/{name}/audit` for what became of earlier ones.",
    ),
    "proposal-outdated": Row(
        409,
        "The alias was moved since",
        "The challenger was compared with the map at which the alias pointed then, and it points elsewhere now.",
        "Reject the proposal, or move the alias by `PUT /maps/{name}/aliases/{alias}`.",
    ),
    "quota-exceeded": Row(
        429,
        "The tenant's quota is used up",
        "The tenant keeps as many bytes of batches, or as many maps or monitors, as it may.",
        "Delete what is no longer needed, wait until batches expire, or have the quota raised.",
    ),
    "store-full": Row(
        507,
        "The store is full",
        "What is stored has reached the budget of the store, or the share of it that one tenant may have; the detail "
        "says which. Nothing of the request was stored. Reads and deletions go on, and accepted jobs end.",
        "Delete what is no longer needed and send the request again after a few seconds, or wait until batches expire. "
        "The operator gives the store more memory (`maxmemory`), or a greater part of it to requests (`store-budget`).",
    ),
    "too-many-jobs": Row(
        429,
        "The tenant has too many jobs",
        "As many jobs of the tenant are queued or running as it may have.",
        "Try again after the seconds of `Retry-After`, cancel jobs that are not needed, or have the quota raised.",
    ),
    "storage-error": Row(
        500,
        "The store failed",
        "The store answered with something that the service cannot use.",
        "Tell the operator, whose log has the cause; the same request will hardly fare better.",
    ),
    "later-format": Row(
        503,
        "A later version wrote what is stored",
        "The store holds a document of a later format than this version knows, as while processes are upgraded, or "
        "after a newer version was replaced by an older one.",
        "Send the request again after the seconds of `Retry-After`; if it stays so, the operator runs a newer version.",
    ),
    "damaged-backup": Row(
        422,
        "The backup is damaged",
        "The file of `calibrant restore` is no backup, or not all of one. Nothing was written.",
        "Take another copy of the file, or another backup.",
    ),
    "store-not-empty": Row(
        409,
        "The store is not empty",
        "The store into which `calibrant restore` is to write holds something already.",
        "Restore into an empty store, or add what it does not hold by `--merge`; what is there stays.",
    ),
    "embedded-store-failed": Row(
        500,
        "The store did not start",
        "The server of the embedded store did not start, or another service holds its folder.",
        "Look into `redis.log` in the folder of the data; give each service a folder of its own by `--data`.",
    ),
    "folder-in-use": Row(
        500,
        "The data folder is in use",
        "Another service runs on the same data folder.",
        "Stop it, or give each service a folder of its own by `--data`.",
    ),
    "worker-lost": Row(
        500,
        "The worker was lost",
        "The process of a job ended in each of its runs, for want of memory or because it or its machine was stopped.",
        "Post the request again; if it fails again, send fewer rows or give the workers more memory.",
    ),
    "time-limit": Row(
        504,
        "The job took too long",
        "One run of the job took longer than `fit-timeout` or `evaluate-timeout` allows.",
        "Send fewer rows, fewer measures or resamples, or a quicker method; or have the limit raised.",
    ),
    "run-lost": Row(
        409,
        "The run of the job does not count",
        "A worker wrote what a job's earlier run came to, after the job had been cancelled or given to another.",
        "Nothing: only workers receive it.",
    ),
    "internal-error": Row(
        500,
        "The service has an error",
        "An error of the service, not of the request. It has been logged.",
        "Tell the operator when it was; report it if the log shows a fault of Calibrant.",
    ),
    "deadline-exceeded": Row(
        503,
        "The answer was not there in time",
        "The work of the request took longer than a request may.",
        "Ask for it as a job: `Prefer: respond-async`.",
    ),
    "too-many-streams": Row(
        503,
        "Too many streams are open",
        "As many streams of events are open as a process holds, or half as many of one tenant, or a quarter of one API "
        "key; the detail says which.",
        "Try again after the seconds of `Retry-After`, or look at `GET /jobs/{job_id}`.",
    ),
    "too-many-connections": Row(
        503,
        "Too many connections from one address",
        "The client's address holds as many connections to this process as one address may.",
        "Close idle connections and use a connection pool. A proxy in front belongs in `CALIBRANT_TRUSTED_PROXIES`.",
    ),
    "busy": Row(
        503,
        "The service is busy",
        "As many heavy requests are under way as the service works on at once, or half as many of one tenant, or their "
        "bodies fill the memory that there is for bodies; the detail says which.",
        "Try again after the seconds of `Retry-After`.",
    ),
    "spool-full": Row(
        507,
        "There is no room for the file",
        "The volume of temporary files has no room for the file, or the tenant's files take half of it.",
        "Send a smaller file, try again later, or send the rows to `POST /batches`, which needs no temporary file; the "
        "operator can give the volume (`TMPDIR`, else `/tmp`) twice `--max-body-bytes` or more.",
    ),
    "queue-full": Row(
        503,
        "The queue is full",
        "As many jobs are queued or running, of all tenants, as the service takes.",
        "Try again after the seconds of `Retry-After`; more workers empty the queue sooner.",
    ),
    "unsuitable-store": Row(
        503,
        "The store is not suitable",
        "The Redis of the service may evict keys, so that maps could be lost.",
        "Set `maxmemory-policy noeviction` in that Redis, and start the service again.",
    ),
    "store-unavailable": Row(
        503,
        "The store is away",
        "Redis cannot be reached. What was acknowledged is kept.",
        "Send the request again after the seconds in `Retry-After`.",
    ),
}
