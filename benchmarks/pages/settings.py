"""docs/reference/settings.md, generated from the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from calibrant.cli.main import app

_HEAD = """# Settings

Every flag of `calibrant` that can also be set by an environment variable or, for the commands of the service and of
workers, in a TOML file that `--config` or `CALIBRANT_CONFIG` names. A flag precedes a variable, which precedes the
file:

```toml
redis_url_file = "/run/secrets/redis-url"
quota_jobs = 1000
cors_origins = ["https://app.example.com"]
```

In values of the [Helm chart](../how-to/helm.md), settings have the same names as in the file.

`serve` passes the settings of `api` and `worker` on to them. The three refuse names that are no settings and values
out of range, and print all settings with `--show-settings`, as an environment file without passwords.
`python -m workers.alive` reads `CALIBRANT_CONFIG`, not the flag. Times are in seconds, sizes in bytes. Generated from
the commands (`make reference`).

| flag | variable | commands | default | meaning |
|---|---|---|---|---|
"""


def settings_page() -> str:
    """The page: a row a flag, in the order of the commands."""
    group: Any = typer.main.get_command(app)
    rows: dict[tuple[str, Any], tuple[Any, list[str]]] = {}
    for name, command in _commands(group):
        for option in command.params:
            if option.envvar:
                names = rows.setdefault((option.envvar, option.default), (option, []))[1]
                if name not in names:
                    names.append(name)
    return _HEAD + "".join(_row(option, names) for option, names in rows.values())


def _commands(group: Any) -> Iterator[tuple[str, Any]]:
    """Every command with the name of it or of its group."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        inner = getattr(command, "commands", {})
        yield from [(name, part) for part in inner.values()] if inner else [(name, command)]


def _row(option: Any, commands: list[str]) -> str:
    default = "none" if option.default is None or option.required else f"`{option.default}`"
    return f"| `{option.opts[0]}` | `{option.envvar}` | {', '.join(commands)} | {default} | {option.help} |\n"
