"""The web pages, rendered from templates."""
