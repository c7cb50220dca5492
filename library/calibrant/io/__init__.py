"""Readers of CSV, NPZ, NPY, Parquet and Arrow data, from files and from request bodies.

``files`` reads files of users: it infers the format and the columns, and returns notes on what it inferred.
``strict`` reads request bodies: names and types must be exact, and errors name the field and the first bad row.
"""
