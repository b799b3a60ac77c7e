"""Finding a checkpoint for a person: by its fingerprint, or the beginning of it, within their scope."""

from __future__ import annotations

from geocairn.checkpoint import Checkpoint, is_fingerprint
from geocairn.failure import InputFailure
from geocairn.stores.keys import CHECKPOINTS, fingerprint_of
from geocairn.workspace import Workspace

_REMEDY = "check the fingerprint, the store and the scope"


def find_checkpoint(text: str, workspace: Workspace) -> Checkpoint:
    """Return the checkpoint whose fingerprint is, or begins with, `text`.

    Another scope's checkpoint is not told from one that is not there.

    Raises
    ------
    InputFailure : when there is none that the scope may read, or more than one.
    """
    wanted = text.strip().lower()
    if not is_fingerprint(wanted) and (len(wanted) < 4 or not all(letter in "0123456789abcdef" for letter in wanted)):
        raise InputFailure(f"{text!r} is no fingerprint: give at least four of its hexadecimal digits")
    candidates = [wanted]
    if not is_fingerprint(wanted):
        listed = workspace.store.objects.list(f"{CHECKPOINTS}{wanted[:2]}/{wanted}")
        candidates = [print_ for info in listed if (print_ := fingerprint_of(info.key)) is not None]
    found = [workspace.store.get(print_) for print_ in candidates]
    readable = [
        checkpoint for checkpoint in found if checkpoint is not None and checkpoint.readable_by({workspace.scope})
    ]
    if not readable:
        raise InputFailure(f"there is no checkpoint {text!r} here", remedy=_REMEDY)
    if len(readable) > 1:
        shown = ", ".join(checkpoint.fingerprint[:16] for checkpoint in readable[:4])
        raise InputFailure(f"{len(readable)} checkpoints begin with {text!r}: {shown}", remedy="give more of it")
    return readable[0]
