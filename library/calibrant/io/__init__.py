"""One reader per format: CSV, NPZ, NPY, Parquet and Arrow, from files or from the bodies of requests to arrays.

``files`` is the mode for files of people: it infers the kind of file and the columns, and notes what it inferred.
``strict`` is the mode for programs: exact names and types, and errors that name the field and the first bad row.
"""
