"""Tallies of data at rest, made where the data lies and merged by an engine that exists.

``arrow`` counts record batches, which Spark hands to Python too; ``dask`` counts partitioned Parquet and Dask's own
collections on a cluster; ``duckdb`` counts files and relations by SQL in one process. All give the same tallies. Each
imports its engine on first use, and says which extra brings it.
"""

from calibrant.distributed import arrow, dask, duckdb

__all__ = ["arrow", "dask", "duckdb"]
