"""An operation as a Prefect task: `buffer = step(operations["buffer"])`.

The task's cache key function is the chain fingerprint, made from the arguments alone. Prefect asks the store for that
key; where a checkpoint is there the task run is Cached, otherwise the body computes, passes the gate and commits.
What always holds: the body looks again by itself, since Prefect takes a failed look-up for a miss and a key that
cannot be made for "do not cache"; there a step raises instead.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Concatenate, Generic, get_args, overload

from prefect import Task
from prefect.context import FlowRunContext
from typing_extensions import ParamSpec

from geocairn.backends.claims import usable
from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.execution import kept_longer
from geocairn.expectation import Expect
from geocairn.failure import InputFailure
from geocairn.fingerprint import operation_version
from geocairn.gate import GATE_VERSION
from geocairn.nearest import did_you_mean
from geocairn.operations.contract import Operation, operation
from geocairn.operations.registry import operations
from geocairn.plan.model import CheckpointPolicy, parse_duration
from geocairn.step_call import FallbackFor, StepCall, StepSettings
from geocairn.tasks.body import body_of, chain_fingerprint
from geocairn.tasks.flow_trace import step_entry
from geocairn.tasks.recovery import DelayOfClass, ended, progress_of, recover, retries_told, step_name
from geocairn.tasks.runs import FlowRun, expect_run, known_run, storage_for_task
from geocairn.tasks.termination import heed_termination

P = ParamSpec("P", default=...)

_OURS = {
    "cache_policy": "a step's key is its fingerprint",
    "cache_key_fn": "a step's key is its fingerprint",
    "cache_expiration": 'say retention="12h"',
    "refresh_cache": "a step whose fingerprint is there need not run; give the operation a new version",
    "persist_result": 'say checkpoint="never"',
    "result_storage_key": "a step's key is its fingerprint",
    "result_serializer": "checkpoints are JSON and GeoParquet",
    "cache_result_in_memory": "layers pass in memory under GEOCAIRN_MEMORY_BUDGET",
    "retry_delay_seconds": "the recovery hook sets the delay by the class of a failure",
    "retry_jitter_factor": "the recovery hook sets the delay by the class of a failure",
    "retry_condition_fn": "the recovery hook decides by the class of a failure",
}
"""Options of a Prefect task that a step sets itself, each with what to do instead."""


class StepTask(Task[P, Checkpoint], Generic[P]):
    """A geoprocessing step: takes checkpoints (or layers) and parameters, returns a checkpoint.

    Call it, `.submit` or `.map` it in a flow like any task; see `step` for how to make one.
    """

    def __init__(self, operation: Operation, settings: StepSettings | None = None, **options: Any) -> None:
        self.operation = operation
        self.settings = settings or StepSettings()
        super().__init__(
            fn=body_of(operation),
            name=options.pop("name", operation.name),
            description=options.pop("description", operation.summary),
            task_run_name=options.pop("task_run_name", None) or operation.name,
            cache_key_fn=chain_fingerprint,
            persist_result=True,
            cache_result_in_memory=False,
            retry_delay_seconds=0,
            retry_condition_fn=recover,
            on_failure=[ended, *(options.pop("on_failure", None) or ())],
            **options,
        )
        self.retry_delay_seconds = DelayOfClass([0.0])

    @property
    def eligible_backends(self) -> tuple[str, ...]:
        """The backends that may compute it, in the order in which they are tried."""
        chosen = self.settings.backends
        if not chosen:
            return self.operation.backends
        # With none left the choice stands as it is, so that the step says which backends there are.
        return tuple(name for name in chosen if name in self.operation.backends) or chosen

    def backends_for(self, call: StepCall) -> tuple[str, ...]:
        """Return the backends that may compute a call: those that were chosen, else all that claim it and are there."""
        if self.settings.backends:
            return self.eligible_backends
        chosen, *others = self.eligible_backends
        return (chosen, *(name for name in others if usable(self.operation, call.parameters, name)))

    def takes(self, checkpoint: Checkpoint, task_run: Any) -> bool:
        """Take a checkpoint that is there, where it will do as it is; the body says what is wrong with another."""
        if not self._accepts(checkpoint):
            return False
        self.note("reused", checkpoint, task_run)
        return True

    def _accepts(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.kind == "publication":
            return True
        seen = checkpoint.facts.gate == GATE_VERSION
        if kept_longer(checkpoint, self.settings.retention, time.time()) is not None:
            return False
        return seen and not self.settings.unmet(checkpoint.facts, source=checkpoint.kind == "source")

    def note(self, outcome: str, checkpoint: Checkpoint | None, task_run: Any) -> None:
        """Note what became of a task run, where its run is that of a flow in Python."""
        run = known_run()
        if isinstance(run, FlowRun):
            attempts = progress_of(task_run).attempts
            run.note(task_run, step_entry(step_name(self), self.operation.name, outcome, checkpoint, attempts))

    @property
    def retries(self) -> int:
        """How many retries Prefect is told of; the recovery hook decides."""
        return retries_told(self.settings.retries, self.eligible_backends)

    @retries.setter
    def retries(self, value: int) -> None:
        """Take no number from Prefect: the count goes by the budgets."""

    @property
    def result_storage(self) -> Any:
        """Where Prefect looks the fingerprint up: what was stated, the flow's checkpoint store, or the default one."""
        return storage_for_task(self.__dict__.get("_stated_storage"))

    @result_storage.setter
    def result_storage(self, value: Any) -> None:
        self.__dict__["_stated_storage"] = _checkpoint_store(value, self.operation)

    def with_options(  # type: ignore[override]
        self,
        *,
        expect: Expect | Mapping[str, Any] | None = None,
        allow_empty: bool | None = None,
        on_invalid: str | None = None,
        checkpoint: str | None = None,
        retention: str | None = None,
        backends: tuple[str, ...] | list[str] | None = None,
        retries: int | None = None,
        step_name: str | None = None,
        pinned: Any = None,
        fallback_for: FallbackFor | None = None,
        context_names: tuple[str, ...] | None = None,
        **options: Any,
    ) -> StepTask[P]:
        """Return the same step with other options: those of a plan's step, and those of any Prefect task.

        Parameters
        ----------
        expect, allow_empty, on_invalid, checkpoint, retention, backends, retries : as in a plan's step.
        step_name : its name in messages, records and the UI.
        pinned : the version that a source is held to.
        fallback_for : the step of a plan whose place it takes.
        context_names : for `write_layer`, what the layers drawn around a map are called.
        options : what `prefect.Task.with_options` takes, less what a step sets itself.

        Raises
        ------
        InputFailure : for a value that a plan's step would not take, or an option that a step sets itself.
        """
        changes: dict[str, Any] = {}
        if expect is not None:
            changes["expect"] = expect if isinstance(expect, Expect) else _expect(expect, self.operation)
        if on_invalid is not None:
            changes["repair"] = _one_of("on_invalid", on_invalid, ("fail", "repair"), self.operation) == "repair"
        if checkpoint is not None:
            changes["checkpoint"] = _one_of("checkpoint", checkpoint, get_args(CheckpointPolicy), self.operation)
        if retention is not None:
            changes["retention"] = _duration(retention, self.operation)
        if retries is not None and retries < 0:
            raise InputFailure(f"retries must not be negative, got {retries}", where=self.operation.name)
        plain_settings = {
            "allow_empty": allow_empty,
            "backends": tuple(backends) if backends is not None else None,
            "retries": retries,
            "pinned": pinned,
            "fallback_for": fallback_for,
            "context_names": context_names,
            "name": step_name,
        }
        changes |= {name: value for name, value in plain_settings.items() if value is not None}
        if step_name is not None:
            shown = step_name.replace("{", "{{").replace("}", "}}")  # Prefect takes the name for a template
            options.setdefault("task_run_name", f"{self.operation.name} · {shown}")
        for name in options:
            if name in _OURS:
                raise InputFailure(f"a step does not take {name}", where=self.operation.name, remedy=_OURS[name])
            if name not in _PREFECT_OPTIONS:
                known = [*_OWN_OPTIONS, *_PREFECT_OPTIONS]
                raise InputFailure(f"there is no option {name!r}{did_you_mean(name, known)}", where=self.operation.name)
        if options.get("on_failure") is not None:
            options["on_failure"] = [ended, *options["on_failure"]]
        stated = options.pop("result_storage", self.__dict__.get("_stated_storage"))
        plain = super().with_options(**{**options, "result_storage": None})
        made = self._like(plain, replace(self.settings, **changes))
        made.result_storage = stated
        return made

    if not TYPE_CHECKING:  # their types are Prefect's

        def submit(self, *args: Any, **options: Any) -> Any:
            """Run the step in the flow's task runner, as `prefect.Task.submit` does."""
            self._begin()
            return super().submit(*args, **options)

        def map(self, *args: Any, **options: Any) -> Any:
            """Run the step once for each item, as `prefect.Task.map` does."""
            self._begin()
            return super().map(*args, **options)

    def _begin(self) -> None:
        """Prepare this process for a step that runs in a thread or another process."""
        heed_termination()
        expect_run(self.result_storage)

    def _like(self, plain: Task[..., Any], settings: StepSettings) -> StepTask[P]:
        """Make a step of a plain task that Prefect made from this one."""
        made: StepTask[P] = StepTask.__new__(StepTask)
        own = ("result_storage", "retries")
        made.__dict__.update({name: value for name, value in plain.__dict__.items() if name not in own})
        made.operation, made.settings = self.operation, settings
        made.retry_delay_seconds = DelayOfClass([0.0])
        return made

    def __copy__(self) -> StepTask[P]:
        made: StepTask[P] = StepTask.__new__(StepTask)
        made.__dict__.update(self.__dict__)
        return made

    def __reduce__(self) -> Any:
        """Travel without code where the code is installed: as the operation's name, or as module and name of the step.

        A step of a script or notebook travels with its code, and with the version that the code has here.
        """
        state = {name: value for name, value in self.__dict__.items() if name not in _MADE_AGAIN}
        if FlowRunContext.get() is not None:
            # A worker may have another working directory or environment: the default store is this process's.
            state["_stated_storage"] = self.result_storage
        return _rebuilt, (self._reference(), self.settings, state)

    def _reference(self) -> Any:
        if operations.get(self.operation.name) is self.operation:
            return self.operation.name
        module, name = self.operation.function.__module__, self.operation.function.__qualname__
        if module != "__main__" and _operation_at(module, name) is self.operation:
            return (module, name)
        return replace(self.operation, version=operation_version(self.operation))


_MADE_AGAIN = frozenset(
    {
        "fn",
        "operation",
        "settings",
        "cache_key_fn",
        "cache_policy",
        "retry_condition_fn",
        "retry_delay_seconds",
        "source_code",
        "__wrapped__",
    }
)
_OWN_OPTIONS = tuple(inspect.signature(StepTask.with_options).parameters)[1:-1]
_PREFECT_OPTIONS = frozenset(inspect.signature(Task.with_options).parameters) - {"self", "retries"} - set(_OURS)


def _rebuilt(reference: Any, settings: StepSettings, state: dict[str, Any]) -> StepTask[...]:
    if isinstance(reference, Operation):
        found = reference
    elif isinstance(reference, tuple):
        __import__(reference[0])
        found = _operation_at(*reference)
    else:
        found = operations[reference]
    made: StepTask[...] = StepTask(found, settings)
    made.__dict__.update(state)
    return made


def _operation_at(module: str, name: str) -> Any:
    """Return the operation of the step that a module has under a name, if there is one."""
    try:
        found: Any = reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return found.operation if isinstance(found, StepTask) else None


@overload
def step(operation: Operation, /, **options: Any) -> StepTask[...]: ...
@overload
def step(
    function: Callable[Concatenate[Any, Any, P], Any], /, **options: Any
) -> StepTask[Concatenate[Any, Any, P]]: ...
@overload
def step(function: Callable[Concatenate[Any, P], Any], /, **options: Any) -> StepTask[Concatenate[Any, P]]: ...
@overload
def step(**options: Any) -> Callable[[Callable[..., Any]], StepTask[...]]: ...
def step(operation_or_function: Any = None, /, **options: Any) -> Any:
    """Make a Prefect task of an operation, or of your own function: `@step` or `@step(version=1, result="polygon")`.

    Parameters annotated as GeoDataFrame are inputs and take checkpoints or layers; the others are parameters.

    Parameters
    ----------
    operation_or_function : an operation, or a function of layers and parameters that returns a layer.
    options : for a function what `geocairn.operations.operation` takes (without a `version` the hash of its code
        counts); for both what `StepTask.with_options` takes.

    Raises
    ------
    TypeError : for a function whose parameters have no types, or of `*args` and `**kwargs`.
    InputFailure : for an option that there is not.
    """
    if operation_or_function is None:
        return lambda function: step(function, **options)
    chosen = operation_or_function
    if not isinstance(chosen, Operation):
        if inspect.iscoroutinefunction(chosen) or inspect.isgeneratorfunction(chosen):
            raise TypeError(f"step {chosen.__name__}: a step is a plain function that returns a layer")
        names = [name for name in inspect.signature(operation).parameters if name in options]
        contract = {name: options.pop(name) for name in names}
        chosen = operation(**{"result": "any", "crs": "any", **contract})(operation_or_function)
    made: StepTask[...] = StepTask(chosen)
    return made.with_options(**options) if options else made


def _checkpoint_store(value: Any, operation: Operation) -> Any:
    """Return a result storage that a step can have: a checkpoint store block, or the name of a saved one."""
    slug = CheckpointStoreBlock.get_block_type_slug()
    if value is None or isinstance(value, CheckpointStoreBlock):
        return value
    if isinstance(value, str) and value.startswith(f"{slug}/"):
        return value
    raise InputFailure(
        f"a step's result storage is a checkpoint store, not {value!r}",
        where=operation.name,
        remedy=f'give a CheckpointStoreBlock, or the name of a saved one: "{slug}/NAME"',
    )


def _expect(stated: Mapping[str, Any], operation: Operation) -> Expect:
    try:
        return Expect.model_validate(dict(stated))
    except ValueError as error:
        raise InputFailure(f"expect: {error}", where=operation.name) from None


def _one_of(name: str, value: str, allowed: tuple[str, ...], operation: Operation) -> str:
    if value not in allowed:
        known = " or ".join(map(repr, allowed))
        raise InputFailure(f"{name} is {known}, not {value!r}{did_you_mean(value, allowed)}", where=operation.name)
    return value


def _duration(value: str, operation: Operation) -> str:
    try:
        parse_duration(value)
    except ValueError as error:
        raise InputFailure(f"retention: {error}", where=operation.name) from None
    return value


__all__ = ["CheckpointStoreBlock", "StepTask", "chain_fingerprint", "step"]
