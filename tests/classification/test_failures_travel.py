"""Failures of our own, as they go from one process to another."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from typing import Any

import cloudpickle
import pytest

import geocairn
from geocairn.classification import classify, retry_after
from geocairn.failure import Failure, InputFailure, TransientFailure
from geocairn.stores.objects import Missing

for _module in pkgutil.walk_packages(geocairn.__path__, "geocairn."):
    importlib.import_module(_module.name)


def _below(kind: type[Failure]) -> set[type[Failure]]:
    return {kind}.union(*(_below(kind) for kind in kind.__subclasses__()))


KINDS = sorted((kind for kind in _below(Failure) if kind.__module__.startswith("geocairn.")), key=lambda k: k.__name__)

OTHER_SHAPES: dict[str, tuple[Any, ...]] = {"LayerLost": ("f" * 64,)}
"""What the constructors of some kinds take before the rest."""


def made(kind: type[Failure]) -> list[Failure]:
    before = OTHER_SHAPES.get(kind.__name__, ())
    return [
        kind(*before, "what", "where", "remedy"),
        kind(*before, "what"),
        kind(*before, "what", remedy="remedy"),
        kind(*before, "what").at("where"),
    ]


MADE = [failure for kind in KINDS for failure in made(kind)] + [TransientFailure("what", retry_after=2.5)]


@pytest.mark.parametrize("failure", MADE, ids=lambda failure: f"{type(failure).__name__}-{len(str(failure))}")
@pytest.mark.parametrize("library", [pickle, cloudpickle])
def test_a_failure_survives_its_journey(failure: Failure, library: Any) -> None:
    back = library.loads(library.dumps(failure))
    assert type(back) is type(failure)
    assert (back.what, back.where, back.remedy) == (failure.what, failure.where, failure.remedy)
    assert str(back) == str(failure)
    assert back.args == failure.args
    assert classify(back) == classify(failure)
    assert classify(back).known
    assert retry_after(back) == retry_after(failure)
    assert back.__dict__ == failure.__dict__


def test_the_text_of_a_failure_says_where_what_and_what_to_do() -> None:
    assert str(InputFailure("no column 'a'", "step x", "use 'b'")) == "step x: no column 'a'; use 'b'"
    assert str(InputFailure("no column 'a'")) == "no column 'a'"
    assert str(InputFailure("w", "here").at("there")) == "here: w"
    assert str(Missing("gone", "key")) == "key: gone"
    assert isinstance(Missing("gone"), KeyError)
