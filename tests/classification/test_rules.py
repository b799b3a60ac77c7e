"""Each row of the tables, by an exception that the library itself raises, or makes of what cannot be staged here."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from code_cases import Case, code_cases
from database_cases import database_cases
from geometry_cases import geometry_cases
from misbehaving import Servers, raised
from service_cases import service_cases, system_cases

from geocairn.classification import classify
from geocairn.classification.answer_codes import ERRNOS, S3_CODES, SQLSTATES, STATUSES
from geocairn.classification.exception_types import MESSAGES, TYPES
from geocairn.failure import ACTIONS

CASES: list[Case] = [*code_cases(), *service_cases(), *database_cases(), *geometry_cases(), *system_cases()]

# Raised from within other exceptions, whose row would be another: each has a test of its own.
IN_CHAINS = {"type aiohttp.client_exceptions.ClientConnectorCertificateError"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].replace(" ", "-"))
@pytest.mark.filterwarnings("ignore")
def test_each_row_decides(case: Case, servers: Servers, tmp_path: Path) -> None:
    row, failure_class, call = case
    error = raised(lambda: call(servers, tmp_path))
    found = classify(error)
    assert (found.rule, found.failure_class, found.known) == (row, failure_class, True), f"{type(error)}: {error}"
    assert found.action == ACTIONS[failure_class]
    assert found.reason


def test_no_row_is_without_a_case() -> None:
    rows = {
        *(f"S3 code {code}" for code in S3_CODES),
        *(f"status {status}" for status in STATUSES),
        *(f"errno {errno.errorcode[number]}" for number in ERRNOS),
        *(f"SQLSTATE {state}" for state in SQLSTATES),
        *(f"type {name}" for name in TYPES),
        *(f"message {name}: {fragment}" for name, fragment, *_ in MESSAGES),
    }
    assert rows == {row for row, *_ in CASES} | IN_CHAINS
