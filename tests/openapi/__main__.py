"""`make openapi-clients`: generate a client in Python and one in TypeScript, and lint the document."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from service.app import create_app
from service.openapi import operations
from service.settings import Settings
from tests.openapi.python import CONFIG, FOLDER, HERE, generate

_FILES = ("package.json", "package-lock.json", "tsconfig.json", "usage.ts")
#: An option of openapi-typescript: a default is no reason to send a field.
_OPTIONS = ("--default-non-nullable=false",)


def _python(document: dict[str, Any]) -> bool:
    whole = True
    for name, config in (("plain", None), ("configured", CONFIG)):
        client = generate(document, FOLDER / name, config=config)
        passed_over = ", ".join(sorted(client.content_types))
        print(f"openapi-python-client, {name}: {len(client.calls)} calls; content types passed over: {passed_over}")
        for problem in [*client.left_out, *client.others]:
            print(f"  {problem}")
        whole = whole and not client.left_out
    return whole


def _typescript(document: dict[str, Any]) -> bool:
    npm = shutil.which("npm")
    if npm is None:
        print("npm is missing: install Node.js 20.19 or later", file=sys.stderr)
        return False
    folder = FOLDER / "typescript"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copy(HERE / name, folder)
    (folder / "openapi.json").write_text(json.dumps(document, indent=1), "utf-8")
    commands = (
        [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
        [_command(folder, "redocly"), "lint", "openapi.json", "--extends", "recommended-strict"],
        [_command(folder, "openapi-typescript"), "openapi.json", "--output", "calibrant.ts", *_OPTIONS],
        [_command(folder, "tsc"), "--noEmit"],
    )
    env = os.environ | {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    return all(subprocess.run(command, cwd=folder, env=env, check=False).returncode == 0 for command in commands)


def _command(folder: Path, name: str) -> str:
    return str(folder / "node_modules" / ".bin" / name)


def main() -> int:
    """Run every generator and the linter; the exit status."""
    document = create_app(Settings(redis_url="unix:///nowhere")).openapi()
    print(f"the document: {len([*operations(document)])} calls, {len(document['components']['schemas'])} models")
    outcomes = (_python(document), _typescript(document))
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
