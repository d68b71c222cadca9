"""Functions that the entries of `deviations.toml` about pure tables name."""

from __future__ import annotations

import re
from typing import Any

from golden.compare import Case

_CODE_IN_A_NUMBER = re.compile(r"[0-9](?:429|50[0234]|52[04])|(?:429|50[0234]|52[04])[0-9]")
_LASTING = re.compile("usage limit reached|resets in [0-9]+ days", re.IGNORECASE)


def without_what_python_cannot_raise(case: Case) -> Case:
    """Rows about thrown values that are no errors: Python raises nothing else."""
    case["cases"] = [row for row in case["cases"] if any(map(_is_error, row["args"]))]
    return case


def _is_error(arg: Any) -> bool:
    return isinstance(arg, dict) and "$error" in arg


def codes_are_whole_numbers(case: Case) -> Case:
    """A status code inside a longer number is none, unless something else in the text is transient."""
    for row in case["cases"]:
        text = row["args"][0].get("errorMessage", "")
        rest = re.sub(r"[0-9]+", lambda m: "" if _CODE_IN_A_NUMBER.search(m.group()) else m.group(), text)
        if row["returns"] and rest != text and not re.search(r"[0-9]|error|time|limit", rest):
            row["returns"] = False
    return case


def used_up_accounts_stay_so(case: Case) -> Case:
    """A plan's limit that resets in days is not retried within a run."""
    for row in case["cases"]:
        if _LASTING.search(row["args"][0].get("errorMessage", "")):
            row["returns"] = False
    return case


def orphaned_results_are_not_sent(case: Case) -> Case:
    """Results that answer no call of the answer before them, gone from what is expected."""
    for row in case["cases"]:
        open_calls: set[str] = set()
        kept = []
        for message in row["returns"]:
            if message["role"] == "assistant":
                open_calls = {b["id"] for b in message["content"] if b["type"] == "toolCall"}
            elif message["role"] == "user":
                open_calls = set()
            if message["role"] != "toolResult" or message["toolCallId"] in open_calls:
                kept.append(message)
        row["returns"] = kept
    return case
