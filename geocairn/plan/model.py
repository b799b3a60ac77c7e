"""The plan: what a user asks for. Sources, ordered steps, outputs; one model for YAML, JSON and Python.

A plan is data: nothing in it runs code. What always holds: an unknown field is refused, and every field of a step
either counts in its fingerprint or stands in the exclusion list of `geocairn.fingerprint` with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from geocairn.cartography import MapStyle
from geocairn.expectation import Expect
from geocairn.highlight import Highlight
from geocairn.sources.source import Source

CheckpointPolicy = Literal["always", "never", "auto"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w)\Z")
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

PINNED = "pinned"


def _name(value: str) -> str:
    if not _NAME.match(value):
        raise ValueError(f"{value!r} is not a name: letters, digits, '_', '-' and '.', without spaces")
    if "." in value:
        raise ValueError(f"{value!r} has a dot, which separates step from parameter in --set")
    return value


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _texts(value: object) -> object:
    """Take whole numbers for the names that they are in YAML, at any depth."""
    if isinstance(value, Mapping):
        return {_text(key): _texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_texts(item) for item in value]
    return _text(value)


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration such as `90s`, `12h`, `7d`; None for `pinned`.

    Raises
    ------
    ValueError : for anything else.
    """
    if text == PINNED:
        return None
    match = _DURATION.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration: write 90s, 30min, 12h, 7d or 2w, or {PINNED}")
    return float(match[1]) * _UNITS[match[2]]


def _duration(value: str) -> str:
    parse_duration(value)
    return value


Name = Annotated[str, BeforeValidator(_text), AfterValidator(_name)]
Duration = Annotated[str, AfterValidator(_duration)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


Inputs = Annotated[str | list[str] | dict[str, str | list[str]], BeforeValidator(_texts)]


class Fallback(_Part):
    """What may take a step's place where it fails: another operation, whose result is told as such."""

    op: str = Field(description="Name of the operation")
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters of the operation")
    inputs: Inputs | None = Field(None, description="Names of sources or earlier steps; by default those of the step")
    because: str = Field(min_length=1, description="Why this will do in the step's place; told with the result")
    granted: bool = Field(
        False, description="Whether it may be used without asking; else a person has to accept it for each run"
    )


class PlanSource(Source):
    """A source of a plan: where it is, how to read it, and what may be done when it cannot be read."""

    allow_older: bool = Field(
        False,
        description="Whether results of the version before may answer when the present one cannot be read; "
        "told with the answer",
    )

    def plain(self) -> Source:
        """Return the source as it is read."""
        return Source(**{name: getattr(self, name) for name in Source.model_fields})


def _of_plan(value: object) -> object:
    """Take a plain source for one of a plan."""
    if isinstance(value, Source) and not isinstance(value, PlanSource):
        return PlanSource(**{name: getattr(value, name) for name in value.model_fields_set})
    return value


class Step(_Part):
    """One use of an operation in a plan, with inputs and parameters."""

    name: Name = Field(description="Name of the step, unique in the plan")
    op: str = Field(description="Name of the operation")
    inputs: Inputs = Field(
        default_factory=dict,
        description="Names of sources or earlier steps: one name, or a name for each role of the operation",
    )
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters of the operation")
    on_invalid: Literal["fail", "repair"] = Field(
        "fail", description="What the gate does about geometry that this step made invalid"
    )
    description: str | None = Field(None, description="What the step is for")
    expect: Expect | None = Field(None, description="What must hold of the result")
    allow_empty: bool = Field(False, description="Whether a result without rows is accepted")
    checkpoint: CheckpointPolicy = Field(
        "always",
        description="Whether the result is stored: always; never (run again when a step that must run needs it); "
        "auto (stored when computing it cost clearly more than storing and reading it)",
    )
    backends: list[str] | None = Field(None, description="Backends to use, in this order; by default all that claim it")
    retries: int | None = Field(
        None, ge=0, le=100, description="Retries of a transient failure; by default the policy's"
    )
    timeout: float | None = Field(None, gt=0, description="Seconds after which an attempt is given up")
    retention: Duration | None = Field(
        None, description="How long the checkpoint is kept: 12h, 7d, pinned; by default the store's time-to-live"
    )
    fallback: Fallback | None = Field(None, description="What may take its place where it fails")


class Output(_Part):
    """Where a result is published."""

    from_: Annotated[str, BeforeValidator(_text)] = Field(
        alias="from", description="Name of the step (or source) whose result is published"
    )
    uri: str = Field(
        description="Where to: a path, s3://bucket/key or postgresql://host/database; a file's ending decides the "
        "format, .png draws a map"
    )
    name: Name | None = Field(None, description="Name in the answer; by default that of the step")
    driver: str | None = Field(None, description="Format, where the ending does not say it")
    layer: str | None = Field(None, description="Name of the layer in the file; in a database schema.table")
    mode: Literal["replace", "error"] = Field("replace", description="What to do when the target is there and not ours")
    context: Annotated[list[str], BeforeValidator(_texts)] = Field(
        default_factory=list, description="Further sources or steps to draw on a map"
    )
    map: MapStyle | None = Field(None, description="How a map is drawn")
    highlight: Highlight | None = Field(None, description="Rows to tell with the answer")


class Plan(_Part):
    """A chain of geoprocessing steps: sources, ordered steps, outputs."""

    name: Name = Field(description="Name of the plan")
    description: str | None = Field(None, description="What the plan answers")
    sources: dict[Name, Annotated[PlanSource, BeforeValidator(_of_plan)]] = Field(
        default_factory=dict, description="Layers that the plan reads, by name"
    )
    steps: list[Step] = Field(default_factory=list, description="Steps in order; inputs name sources or earlier steps")
    outputs: list[Output] = Field(
        default_factory=list, description="What is published; without outputs the last steps are kept as checkpoints"
    )
    planner: str | None = Field(
        None,
        min_length=1,
        description="Name of an installed planner that changes the plan after an input failure; no part of any result",
    )


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema of a plan, in the form that function-calling models take."""
    return {
        "name": "run_chain",
        "description": "Run a chain of geoprocessing steps; results that are there under their fingerprint are reused.",
        "parameters": Plan.model_json_schema(by_alias=True),
    }
