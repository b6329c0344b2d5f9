"""Check what the built files hold: the package alone, with its types and licence; no tests, no data, nothing large."""

import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

KINDS = {".py", ".typed", ".js", ".css", ".html", ".json", ".c", ".h", ".md", ".toml", ".cff", ".txt", ".svg", ""}
LARGEST = 400_000  # bytes of one file

folder = Path(sys.argv[1])
(wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
with zipfile.ZipFile(wheel) as archive:
    in_wheel = {one.filename: one.file_size for one in archive.infolist()}
with tarfile.open(sdist) as archive:
    in_sdist = {one.name.partition("/")[2]: one.size for one in archive.getmembers() if one.isfile()}

wrong = [name for name in in_wheel if not name.startswith("kernelsieve/") and ".dist-info/" not in name]
wrong += [name for name in in_sdist if not name.startswith("src/kernelsieve/") and "/" in name]
for name, size in (*in_wheel.items(), *in_sdist.items()):
    path = PurePosixPath(name)
    if path.suffix not in KINDS or size > LARGEST or {"tests", "data", "__pycache__"} & set(path.parts):
        wrong.append(f"{name} ({size} bytes)")
wrong += [f"without {name}" for name in ("kernelsieve/py.typed", "kernelsieve/__init__.py") if name not in in_wheel]
wrong += ["without a licence"] * (not any(name.endswith("LICENSE") for name in in_wheel))
print(f"{wheel.name}: {len(in_wheel)} files, {wheel.stat().st_size:,} bytes; {sdist.name}: {len(in_sdist)} files")
sys.exit("\n".join(wrong) or 0)
