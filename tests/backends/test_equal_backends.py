"""Every backend gives the reference's answer: the one test that holds each pair equal, over all cases.

Equal are rows and their order, columns, types, attributes, notes and caveats, the failures for wrong input, and the
geometry after normalisation, vertex by vertex within the tolerance that the claim states.
"""

from __future__ import annotations

import pytest
from equality import answer, differences
from equality_cases import SHARED, Case, awkward_cases, many_rows, shared_cases

from geocairn.backends.claims import tolerance
from geocairn.failure import CapabilityFailure
from geocairn.operations.registry import operations

pytest.importorskip("duckdb")

GROUPS = {"awkward": awkward_cases, "many": many_rows, "shared": shared_cases}
CLAIMED = sorted(name for name, operation in operations.items() if "duckdb" in operation.backends)


@pytest.mark.parametrize("group", [name for name in GROUPS if name != "shared" or SHARED.exists()])
@pytest.mark.parametrize("name", CLAIMED)
def test_the_same_answer(name: str, group: str, cases_of: dict[str, list[Case]]) -> None:
    operation = operations[name]
    said = []
    for case in cases_of.get(f"{group}/{name}", []):
        found = answer(operation, case.inputs, case.parameters, "duckdb")
        if case.refused:
            if not isinstance(found[0], CapabilityFailure):
                said.append(f"{case.name}: not refused")
            continue
        expected = answer(operation, case.inputs, case.parameters, "geopandas")
        said += [f"{case.name}: {text}" for text in differences(expected, found, tolerance(operation))]
    assert not said, "\n".join(said[:20])


@pytest.fixture(scope="module")
def cases_of() -> dict[str, list[Case]]:
    grouped: dict[str, list[Case]] = {}
    for group, cases in GROUPS.items():
        for case in cases():
            grouped.setdefault(f"{group}/{case.operation}", []).append(case)
    return grouped


def test_every_claimed_operation_has_cases() -> None:
    assert {case.operation for case in awkward_cases()} == set(CLAIMED)
