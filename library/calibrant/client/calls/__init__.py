"""Methods of the clients with a body or a stream, written as steps, with their docstrings; one module per resource."""

#: Descriptions of arguments of several methods, which `make reference` adds to the docstrings of the clients.
ARGUMENTS = """
Parameters
----------
map : str or MapSummary
    Id, name, ``name:version`` or ``name@alias``.
scale : {"probability", "logit"}, optional
    Scale of the predictions.
return_map : bool, default False
    Also return the id and the version of the map that was applied.
job : str or JobSummary
    Id of the job, or the job.
monitor : str
    Name of the monitor.
form : {"npz", "arrow", "json"}
    Encoding of the rows; ``arrow`` needs pyarrow.
piece : int
    The most rows per request.
key : str, optional
    Idempotency key of the whole call.
"""
