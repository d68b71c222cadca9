"""What does a docstring tell a model? Its first paragraph, and the `Args:` section in Google's style."""

from __future__ import annotations

import inspect
import re

_ARGS = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")


def first_paragraph(docstring: str) -> str:
    """The lines up to the first empty one, joined to a single line.

    >>> first_paragraph("Tell the weather\\n    of a city.\\n\\n    Slow.")
    'Tell the weather of a city.'
    """
    paragraph, _, _ = inspect.cleandoc(docstring).partition("\n\n")
    return " ".join(paragraph.split())


def argument_docs(docstring: str) -> dict[str, str]:
    """The texts of the `Args:` section by argument name; a text of several names is given to each.

    >>> argument_docs("Add.\\n\\nArgs:\\n    a, b: What\\n        to add.\\n    c (bool): Don't.\\n")
    {'a': 'What to add.', 'b': 'What to add.', 'c': "Don't."}
    """
    docs: dict[str, str] = {}
    names: list[str] = []
    section = _args_section(inspect.cleandoc(docstring).splitlines())
    indent = min((_indent(line) for line in section), default=0)
    for line in section:
        entry = _ENTRY.fullmatch(line.strip()) if _indent(line) == indent else None
        if entry is not None:
            names = [name.strip(" *") for name in entry["names"].split(",")]
            docs.update(dict.fromkeys(names, entry["text"]))
        else:  # the line goes on with what stands above it
            docs.update({name: f"{docs[name]} {line.strip()}".strip() for name in names})
    return docs


def _args_section(lines: list[str]) -> list[str]:
    start = next((at for at, line in enumerate(lines, 1) if _ARGS.fullmatch(line)), len(lines))
    section: list[str] = []
    for line in lines[start:]:
        if line.strip() and not _indent(line):
            break
        section.append(line)
    return [line for line in section if line.strip()]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
