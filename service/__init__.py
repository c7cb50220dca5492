"""The HTTP service: routes, body formats, problems and access control."""
