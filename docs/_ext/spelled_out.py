"""Docstrings as the site shows them: what they leave to another class is spelled out, formulas stay as they are set.

A docstring in the code may say

    kernel, gamma, degree : ...
        As in SparseKernelPCA.

because whoever reads the code has the other class at hand.  Whoever reads the reference has not, so each of these names
becomes an entry of its own with the text of the class that is named.  Indented formulas become literal blocks, and the
characters of mathematics that reStructuredText takes for markup (|v|, gamma_) are escaped.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from dataclasses import dataclass
from typing import Any

import kernelsieve

AS_IN = re.compile(r"\bAs in `?(\w+)`?(?P<rest>[.;,].*)?", re.DOTALL)
SECTIONS = ("Parameters", "Attributes")


@dataclass
class Entry:
    """One entry of a numpydoc section: its names, its type, its text."""

    names: list[str]
    kind: str
    text: list[str]

    def lines(self) -> list[str]:
        # napoleon escapes the underscore at the end of a line of names, and no other
        escaped_names = [re.sub(r"_$", r"\\_", name) for name in self.names[:-1]] + self.names[-1:]
        head = ", ".join(escaped_names) + (f" : {escaped(self.kind)}" if self.kind else "")
        return [head, *(f"    {line}" if line else "" for line in self.text)]


def sections_of(lines: list[str]) -> list[tuple[str, list[str]]]:
    """A docstring cut at its underlined titles; the first part has none."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line and re.fullmatch(r"-{3,}", below) and len(below) >= len(line.strip()):
            parts.append((line, []))
        elif not (re.fullmatch(r"-{3,}", line) and parts[-1][0] and not parts[-1][1]):
            parts[-1][1].append(line)
    return parts


def entries_of(lines: list[str]) -> list[Entry]:
    """The entries of a section: a line without indent begins one, or goes on with names after a comma."""
    entries: list[Entry] = []
    for line in lines:
        if line and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            found = [name.strip() for name in names.split(",") if name.strip()]
            if entries and not entries[-1].text and entries[-1].kind == "" and entries[-1].names[-1:] == [""]:
                entries[-1].names[-1:] = found
                entries[-1].kind = kind
            else:
                entries.append(Entry(found, kind, []))
            if line.rstrip().endswith(","):
                entries[-1].names.append("")
        elif entries and (line or entries[-1].text):
            entries[-1].text.append(line[4:])
    for entry in entries:
        while entry.text and not entry.text[-1]:
            entry.text.pop()
    return entries


def borrowed(class_name: str, section: str) -> dict[str, Entry]:
    """Every name that a class documents in a section, spelled out itself."""
    owner = getattr(kernelsieve, class_name, None)
    doc = inspect.getdoc(owner) or ""
    found: dict[str, Entry] = {}
    for title, lines in sections_of(doc.splitlines()):
        if title == section:
            for entry in spelled_out(entries_of(lines), section):
                for name in entry.names:
                    found[name] = Entry([name], entry.kind, entry.text)
    return found


def spelled_out(entries: list[Entry], section: str) -> list[Entry]:
    """Entries that say "As in ..." replaced by what is said there; what they add to it stays."""
    whole: list[Entry] = []
    for entry in entries:
        text = " ".join(entry.text)
        match = AS_IN.search(text)
        source = borrowed(match.group(1), section) if match else {}
        # Names that are dots stand for "and the rest": what the other class has and this one does not say itself.
        names = [name for name in entry.names if name not in ("...", "")]
        if "..." in entry.names:
            said = {name for other in entries for name in other.names}
            names += [name for name in source if name not in said]
        if not any(name in source for name in names):
            whole.append(Entry(names, entry.kind, entry.text))
            continue
        rest = (match.group("rest") or "").lstrip(".;, ") if match else ""
        added = [rest[0].upper() + rest[1:]] if rest else []
        for name in names:
            base = source.get(name)
            whole.append(Entry([name], base.kind, [*base.text, *added]) if base else Entry([name], entry.kind, added))
    return whole


def escaped(line: str) -> str:
    """A line of prose in which |v| and gamma_ are characters, but for what is between backticks."""
    parts = re.split(r"(``.+?``|`.+?`)", line)
    for number in range(0, len(parts), 2):
        prose = parts[number].replace("|", r"\|")
        parts[number] = re.sub(r"(?<=\w)_(?=[^\w]|$)", r"\\_", prose)
    return "".join(parts)


def with_literal_blocks(lines: list[str]) -> list[str]:
    """Paragraphs that are indented after a paragraph that is not are formulas, set as they are; prose is escaped."""
    out: list[str] = []
    literal = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        if indented and not literal and (number == 0 or not lines[number - 1]):
            previous = next((text for text in reversed(out) if text.strip()), "")
            if not previous.endswith("::") and not previous.startswith(">>>"):
                out += ["::", ""]
            literal = True
        elif line and not indented:
            literal = False
        doctest = line.lstrip().startswith((">>>", "..."))
        out.append(line if literal or doctest else escaped(line))
    return out


def runnable_here(lines: list[str]) -> list[str]:
    """Examples; those with torch, which the extra `docs` does not bring, are shown and not run where it is missing."""
    if importlib.util.find_spec("torch") or not any("torch" in line for line in lines):
        return lines
    return [".. code-block:: pycon", "", *(f"   {line}" if line else "" for line in lines)]


def process(app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """sphinx.ext.autodoc's hook, before napoleon's; what is inherited from scikit-learn stays as it is."""
    if str(getattr(subject, "__module__", "")).startswith("sklearn"):
        lines[:] = [line.replace(":ref:", "").replace(":term:", "") for line in lines]
        return
    out: list[str] = []
    for title, part in sections_of(lines):
        if title:
            out += [title, "-" * len(title)]
        if title in SECTIONS or title in ("Returns", "Raises", "Yields"):
            entries = entries_of(part)
            for entry in spelled_out(entries, title) if title in SECTIONS else entries:
                entry.text = with_literal_blocks(entry.text)
                out += entry.lines()
        elif title == "Examples":
            out += runnable_here(part)
        elif title == "References":
            for paragraph in _references(part):
                out += [f"* {escaped(paragraph)}"]
        else:
            out += with_literal_blocks(part)
        out.append("")
    lines[:] = out


def _references(lines: list[str]) -> list[str]:
    """One string a reference: a new one begins with a name and a year."""
    found: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        begins = re.match(r"[A-Z][\w'-]+.*\(\d{4}\)", line) or not found
        if begins:
            found.append(line.strip())
        else:
            found[-1] += " " + line.strip()
    return found


def skip(app: Any, what: str, name: str, subject: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn makes for its own routing."""
    routed = re.fullmatch(r"set_\w+_request|get_metadata_routing|set_callbacks|check_loaded", name)
    return True if routed else None


def setup(app: Any) -> dict[str, bool]:
    """Before napoleon, whose priority is sphinx's default."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
