"""The nearest right name to a wrong one, for messages that make a typo cheap to find."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name in `known` that is closest to `name`, or None when none is close."""
    choices = list(known)
    folded = {choice.lower(): choice for choice in choices}
    if name.lower() in folded:
        return folded[name.lower()]
    found = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if not found:
        found = [choice for choice in choices if len(name) > 2 and (choice.startswith(name) or name.startswith(choice))]
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return what to append to a complaint about `name`: the nearest right name, else the first few that exist."""
    choices = sorted(known)
    found = nearest(name, choices)
    if found is not None:
        return f"; did you mean {found!r}?"
    if not choices:
        return ""
    shown = ", ".join(choices[:12])
    return f"; there is {shown}{', …' if len(choices) > 12 else ''}"
