"""Content types of bodies and responses."""

from __future__ import annotations

JSON = "application/json"
NPZ = "application/x-npz"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
CSV = "text/csv"
NDJSON = "application/x-ndjson"
JSONL = "application/jsonl"
EVENT = "application/cloudevents+json"
EVENTS = "application/cloudevents-batch+json"
HTML = "text/html"
SVG = "image/svg+xml"
PNG = "image/png"
