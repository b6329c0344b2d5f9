"""The chart library as text to put into a page: Vega and Vega-Lite, as vl-convert-python brings them.

Vega draws thousands of points on a canvas in a few milliseconds, links charts by signals, and is kept by the group
that made it; vl-convert-python holds it as one file that needs no network.  The bundle (0.9 MB) takes two seconds to
put together, so it is kept in the user's cache from one report to the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from ..io.atomic import replacing

SNIPPET = "window.vegaEmbed = vegaEmbed;"  # of the bundle's names the one that all versions fill
DISTRIBUTION = "vl-convert-python"


@cache
def chart_library() -> str:
    """JavaScript that leaves `vegaEmbed` on the window."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise ImportError("reports need vl-convert-python: pip install 'kernelsieve[report]'") from error
    path = cache_folder() / f"vega-embed-{version}.js"
    kept = _read(path)
    if kept is not None:
        return kept
    import vl_convert

    script: str = vl_convert.javascript_bundle(SNIPPET)
    with contextlib.suppress(OSError):  # a home that cannot be written to only costs the two seconds again
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(f"{_digest(script)}\n{script}".encode())
    return script


def cache_folder() -> Path:
    """Where a program keeps what it can make again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kernelsieve"


def _read(path: Path) -> str | None:
    """The script of an earlier report, whole: a file that was cut off or changed is not used."""
    try:
        digest, script = path.read_bytes().decode().split("\n", 1)
    except (OSError, ValueError):
        return None
    return script if digest == _digest(script) else None


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
