"""Paths of requests that try to leave the root of a source, or to name what is hidden in it."""

from __future__ import annotations

#: Ways to write the parent folder.
_PARENTS = (
    "..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "%25252e%25252e", "\u2024\u2024", "\uff0e\uff0e",
    "\u2025", "%ef%bc%8e%ef%bc%8e", "...", "....", ".. ", " ..", "..\u200b", "\u200b..", "..\t", "..;", "..\u00a0",
)  # fmt: skip
#: Ways to write a slash.
_SLASHES = (
    "/", "\\", "%2f", "%2F", "%5c", "%252f", "\u2044/..", "\uff0f", "\uff3c", "//", "/./", "\\\\", "%c0%af/",
)  # fmt: skip
_OUTSIDE = ("secret.parquet", "*.parquet", "**")
_WHOLE = (
    "/etc/passwd",
    "/",
    "//host/share/x.parquet",
    "\\\\host\\share\\x.parquet",
    "C:\\x.parquet",
    "c:/x.parquet",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "FILE:secret",
    "s3://other/x.parquet",
    "s3:x.parquet",
    "http://127.0.0.1/x.parquet",
    "https://169.254.169.254/latest/meta-data",
    "gs://other/x.parquet",
    "abfs://other/x.parquet",
    "hdfs://other/x.parquet",
    "viewfs:///x",
    "gopher://x/",
    "data:text/plain,x",
    "jar:file:x",
    "%66ile:///etc/passwd",
    "~/x.parquet",
    "~root/x.parquet",
    "%7e/x.parquet",
    "a/~/x.parquet",
    "a\x00.parquet",
    "a%00.parquet",
    "a%2500.parquet",
    "../secret.parquet\x00.parquet",
    "a\n.parquet",
    "a\r\n/../x",
    "a\u2028b",
    "a\u2029b",
    "a\u202egpj.parquet",
    "a\ufeffb",
    "\ud800",
    "a\x1b[0m",
    "a\x7f",
    "a//b",
    "a/",
    "a/./b",
    "./a",
    ".",
    "..",
    "",
    " ",
    " a",
    "a ",
    "a/ /b",
    ".hidden/x.parquet",
    "a/.hidden",
    ".calibrant-job_1/part-00000.parquet",
    "_manifest.json",
    "a/_delta_log/00000.json",
    "_temporary/x.parquet",
    "%5fmanifest.json",
    "%2ehidden",
    "\uff0ehidden",
    "\uff3fmanifest.json",
    "**/**/x.parquet",
    "**/a/**",
    "x" * 1025,
    "a/" + "x" * 256,
    "\u00e9" * 200,
    "a?b/../../x",
    "[.][.]/secret.parquet/..",
    "{..}/../x",
    "$HOME/../x",
    "`id`/../x",
    "a/b/../../../secret.parquet",
    "country=../secret/..",
    "link.parquet/..",
)  # fmt: skip


def hostile_paths() -> list[str]:
    """200 distinct paths: those above, and combinations of parents and slashes at equal distances."""
    whole = list(dict.fromkeys(_WHOLE))
    combined = [
        path
        for slash in _SLASHES
        for parent in _PARENTS
        for outside in _OUTSIDE
        for path in (f"{parent}{slash}{outside}", f"a{slash}{parent}{slash}{parent}{slash}{outside}")
    ]
    distinct = list(dict.fromkeys(combined))
    step = len(distinct) // (200 - len(whole))
    return [*whole, *distinct[::step]][:200]
