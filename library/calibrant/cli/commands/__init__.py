"""The commands of the library, one a module.

The module has a function, or a ``typer.Typer`` with subcommands, of its own name. Its docstring is the help of the
command; the list of commands shows the first sentence without importing the module.
"""
