"""Tallies of large data sets with existing engines.

- ``arrow`` counts Arrow record batches.
- ``dask`` counts partitioned Parquet and Dask collections on a cluster.
- ``spark`` counts the data frames of Spark on its executors.
- ``duckdb`` counts files and DuckDB relations in one process.

All give the same tallies. Each imports its engine on first use; an error names the extra that installs it.
"""

from calibrant.distributed import arrow, dask, duckdb, spark

__all__ = ["arrow", "dask", "duckdb", "spark"]
