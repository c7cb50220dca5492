"""The web page: what is rendered from templates, for people."""
