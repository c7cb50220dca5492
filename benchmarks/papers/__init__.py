"""The page of the papers: every system, table and figure of the five papers beside ours."""
