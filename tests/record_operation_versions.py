"""The digest of each built-in operation's code, recorded against its version in operation_versions.json.

    python tests/record_operation_versions.py                 record new operations and new versions
    python tests/record_operation_versions.py --same-results  and edits under the same version that change no result

A version stands for what an operation computes. When its code, or project code that it calls, was edited: raise
`version=` at its `@operation`, so that no old result answers for the new code, and record. Where the edit changes no
result (a message, a faster way to the same), `--same-results` says so; the change of the file shows it in review.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).parent / "operation_versions.json"

_TELLING = (
    "geocairn.classification",
    "geocairn.failure",
    "geocairn.notes",
    "geocairn.nearest",
    "geocairn.parallel",
    "geocairn.s3",
    "geocairn.sources.reach",
    "geocairn.sources.web_requests",
)
"""What only tells of a computation, divides it among threads, says what may be reached, or reaches a service (and keeps
its clients): no result comes of that."""


def digests() -> dict[str, str]:
    """Return the digest of each built-in operation's code by `name@version`."""
    from geocairn.operations.registry import operations
    from geocairn.source_code import code_version

    def own(module: str) -> bool:
        return module.startswith("geocairn.") and not module.startswith(_TELLING)

    return {
        f"{name}@{operation.version}": code_version(operation.function, own=own)
        for name, operation in sorted(operations.items())
        if operation.function.__module__.startswith("geocairn.")
    }


def differences(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return what is to be said of each operation whose code is not what was recorded."""
    said = []
    for key in sorted(set(recorded) | set(found)):
        name, _, version = key.partition("@")
        if key not in recorded:
            said.append(f"{key} is not recorded")
        elif key not in found:
            said.append(f"{key} is recorded, and there is no such operation or version any more")
        elif recorded[key] != found[key]:
            said.append(
                f"the code of {name}, or code that it calls, was edited under the same version {version}: raise "
                "version= at its @operation (or record with --same-results, where no result changes)"
            )
    return said


def main(arguments: list[str]) -> int:
    """Record, or with `--check` only say what differs; return the exit code."""
    recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
    found = digests()
    said = differences(recorded, found)
    edited = [text for text in said if "was edited" in text]
    if "--check" in arguments or (edited and "--same-results" not in arguments):
        print("\n".join(said if "--check" in arguments else edited))
        return 1 if said else 0
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"recorded {len(found)} operations; changed: {len(said)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
