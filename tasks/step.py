"""An operation as a Prefect task: `buffer = step(operations["buffer"])`.

The task's cache key function is the chain fingerprint, made from the arguments alone. Prefect asks the store for that key;
where a checkpoint is there the task run is Cached, otherwise the body computes, passes the gate and commits. What always
holds: the body looks again by itself, since Prefect takes a failed look-up for a miss and a key that cannot be made for
"do not cache"; there a step raises instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, overload

from prefect import Task
from prefect.context import TaskRunContext

from geocairn.blocks import CheckpointStoreBlock
from geocairn.checkpoint import Checkpoint
from geocairn.execution import StepCall, StepSettings, execute, input_prints
from geocairn.expectation import Expect
from geocairn.fingerprint import fingerprint, publication_record, step_record
from geocairn.operations.contract import Operation, operation
from geocairn.operations.registry import operations
from geocairn.plan.model import Step
from geocairn.published import publish_step, target_uri
from geocairn.sources.source import Source
from geocairn.tasks.recovery import PREFECT_RETRIES, DelayOfClass, forget, progress_of, recover
from geocairn.tasks.runs import current_run, storage_for_task

_Function = TypeVar("_Function", bound=Callable[..., Any])


class StepTask(Task[..., Checkpoint]):
    """A geoprocessing step: takes checkpoints (or layers) and parameters, returns a checkpoint.

    Call it, `.submit` or `.map` it in a flow like any task; see `step` for how to make one.
    """

    def __init__(self, operation: Operation, settings: StepSettings | None = None, **options: Any) -> None:
        self.operation = operation
        self.settings = settings or StepSettings()
        super().__init__(
            fn=_body(operation),
            name=options.pop("name", operation.name),
            description=options.pop("description", operation.summary),
            task_run_name=options.pop("task_run_name", None) or operation.name,
            cache_key_fn=chain_fingerprint,
            persist_result=True,
            cache_result_in_memory=False,
            retries=PREFECT_RETRIES,
            retry_delay_seconds=0,
            retry_condition_fn=recover,
            on_failure=[_ended],
            on_completion=[_ended],
            **options,
        )
        self.retry_delay_seconds = DelayOfClass([0.0])

    @property
    def eligible_backends(self) -> tuple[str, ...]:
        """The backends that may compute it, in the order in which they are tried."""
        chosen = self.settings.backends
        if chosen is None:
            return self.operation.backends
        return tuple(name for name in chosen if name in self.operation.backends) or self.operation.backends[:1]

    @property
    def result_storage(self) -> Any:
        """Where Prefect looks the fingerprint up: what was stated, the flow's checkpoint store, or the default one."""
        return storage_for_task(self.__dict__.get("_stated_storage"))

    @result_storage.setter
    def result_storage(self, value: Any) -> None:
        self.__dict__["_stated_storage"] = value

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
        context_names: tuple[str, ...] | None = None,
        **options: Any,
    ) -> StepTask:
        """Return the same step with other options: those of a plan's step, and those of any Prefect task.

        Parameters
        ----------
        expect, allow_empty, on_invalid, checkpoint, retention, backends, retries : as in a plan's step.
        step_name : its name in messages, records and the UI.
        pinned : the version that a source is held to.
        context_names : for `write_layer`, what the layers drawn around a map are called.
        options : what `prefect.Task.with_options` takes.
        """
        changes: dict[str, Any] = {}
        if expect is not None:
            changes["expect"] = expect if isinstance(expect, Expect) else Expect.model_validate(dict(expect))
        if allow_empty is not None:
            changes["allow_empty"] = allow_empty
        if on_invalid is not None:
            changes["repair"] = on_invalid == "repair"
        if backends is not None:
            changes["backends"] = tuple(backends)
        plain_settings = {
            "checkpoint": checkpoint,
            "retention": retention,
            "retries": retries,
            "pinned": pinned,
            "context_names": context_names,
        }
        changes |= {name: value for name, value in plain_settings.items() if value is not None}
        if step_name is not None:
            changes["name"] = step_name
            options.setdefault("task_run_name", f"{self.operation.name} · {step_name}")
        stated = self.__dict__.get("_stated_storage")
        plain = super().with_options(**{"result_storage": stated, **options})
        return self._like(plain, replace(self.settings, **changes))

    def _like(self, plain: Task[..., Any], settings: StepSettings) -> StepTask:
        """Make a step of a plain task that Prefect made from this one."""
        made = StepTask.__new__(StepTask)
        made.__dict__.update({name: value for name, value in plain.__dict__.items() if name != "result_storage"})
        made.__dict__.setdefault("_stated_storage", None)
        made.operation, made.settings = self.operation, settings
        made.retry_delay_seconds = DelayOfClass([0.0])
        return made

    def __copy__(self) -> StepTask:
        made = StepTask.__new__(StepTask)
        made.__dict__.update(self.__dict__)
        return made

    def __reduce__(self) -> Any:
        """Travel as the operation's name where it is registered: small, and the code stays where it is installed."""
        if operations.get(self.operation.name) is self.operation:
            state = {
                name: value
                for name, value in self.__dict__.items()
                if name in ("task_run_name", "timeout_seconds", "tags", "_stated_storage", "log_prints", "refresh_cache")
            }
            return _rebuilt, (self.operation.name, self.settings, state)
        return super().__reduce__()


def _rebuilt(name: str, settings: StepSettings, state: dict[str, Any]) -> StepTask:
    made = StepTask(operations[name], settings)
    made.__dict__.update(state)
    return made


@overload
def step(operation_or_function: Operation | Callable[..., Any], /, **options: Any) -> StepTask: ...
@overload
def step(**options: Any) -> Callable[[Callable[..., Any]], StepTask]: ...
def step(operation_or_function: Any = None, /, **options: Any) -> Any:
    """Make a Prefect task of an operation, or of your own function: `@step` or `@step(version=1, result="polygon")`.

    Parameters annotated as GeoDataFrame are inputs and take checkpoints or layers; the others are parameters.

    Parameters
    ----------
    operation_or_function : an operation, or a function of layers and parameters that returns a layer.
    options : for a function what `geocairn.operations.operation` takes (without a `version` the hash of its code counts);
        for both what `StepTask.with_options` takes.
    """
    if operation_or_function is None:
        return lambda function: step(function, **options)
    chosen = operation_or_function
    if not isinstance(chosen, Operation):
        contract = {
            name: options.pop(name)
            for name in list(inspect.signature(operation).parameters)
            if name in options
        }
        chosen = operation(**{"result": "any", "crs": "any", **contract})(operation_or_function)
    made = StepTask(chosen)
    return made.with_options(**options) if options else made


def _body(operation: Operation) -> Callable[..., Checkpoint]:
    """Return the function that Prefect runs: the operation's name and signature, the step's life as its body."""

    def body(*args: Any, **kwargs: Any) -> Checkpoint:
        context = TaskRunContext.get()
        assert context is not None
        task = context.task
        assert isinstance(task, StepTask)
        arguments = inspect.signature(body).bind(*args, **kwargs).arguments
        run = current_run()
        progress = progress_of(context.task_run.id)
        call = call_of(task, arguments)
        call = replace(
            call, backend=progress.backend(task.eligible_backends), attempt=len(progress.attempts) + 1
        )
        if operation.effect:
            return publish_step(call, run)
        return execute(call, run)

    body.__name__ = operation.function.__name__
    body.__qualname__ = operation.function.__qualname__
    body.__module__ = operation.function.__module__
    body.__doc__ = operation.documentation
    body.__signature__ = _signature(operation)  # type: ignore[attr-defined]
    return body


def _signature(operation: Operation) -> inspect.Signature:
    """Return the operation's signature as a task's: any value for inputs, parameters by their public names."""
    roles = {role.name: role for role in operation.roles}
    parameters = []
    taken = set(roles)
    for parameter in inspect.signature(operation.function).parameters.values():
        if parameter.name in roles:
            default = None if roles[parameter.name].optional else inspect.Parameter.empty
            parameters.append(
                inspect.Parameter(parameter.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            )
            continue
        field = operation.parameters.model_fields[parameter.name]
        alias = field.alias or parameter.name
        name = alias if alias not in taken else parameter.name
        default = parameter.default
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    return inspect.Signature(parameters, return_annotation=Checkpoint)


def call_of(task: StepTask, arguments: Mapping[str, Any]) -> StepCall:
    """Return the call that a task's arguments make: contract held, fingerprint computed.

    Made once for a task run: Prefect asks for the key before each attempt.

    Raises
    ------
    InputFailure : for arguments that the operation does not take.
    NotCanonical : for a parameter whose identity cannot be known.
    """
    context = TaskRunContext.get()
    progress = progress_of(context.task_run.id) if context is not None else None
    if progress is not None and progress.call is not None:
        return progress.call  # type: ignore[no-any-return]
    call = _made(task, arguments)
    if progress is not None:
        progress.call = call
    return call


def _made(task: StepTask, arguments: Mapping[str, Any]) -> StepCall:
    chosen, settings = task.operation, task.settings
    inputs, rest = chosen.split_arguments((), arguments)
    parameters = chosen.normalise(rest)
    run = current_run()
    prints = input_prints(inputs, run.workspace.scope)
    if chosen.reads:
        pinned = settings.pinned or run.pin(Source(**dict(parameters)))
        return StepCall(chosen, parameters, {}, pinned.fingerprint, {}, replace(settings, pinned=pinned))
    if chosen.effect:
        record = publication_record(parameters, target_uri(parameters, run.workspace), prints)
        return StepCall(chosen, parameters, inputs, fingerprint(record), {}, settings)
    step = Step(name=settings.name or chosen.name, op=chosen.name, on_invalid="repair" if settings.repair else "fail")
    record = step_record(step, chosen, parameters, prints)
    return StepCall(chosen, parameters, inputs, fingerprint(record), record["environment"], settings)


def chain_fingerprint(context: TaskRunContext, parameters: dict[str, Any]) -> str | None:
    """Return the chain fingerprint of a step: the cache key function of every step."""
    task = context.task
    assert isinstance(task, StepTask)
    return call_of(task, {name: value for name, value in parameters.items() if value is not None}).fingerprint


def _ended(task: Any, task_run: Any, state: Any) -> None:
    """Keep what the run wants to know of a task run that ended, and drop the rest."""
    progress = forget(task_run.id)
    if progress is not None and progress.attempts:
        current_run_attempts(task, task_run, progress.attempts)


def current_run_attempts(task: Any, task_run: Any, attempts: list[dict[str, Any]]) -> None:
    """Hand the failed attempts of a step to its run, for trace and answer."""
    from geocairn.tasks.runs import run_by_id

    run = run_by_id(str(task_run.flow_run_id))
    if run is not None:
        run.attempts.setdefault(task.settings.name or task.operation.name, []).extend(attempts)


__all__ = ["CheckpointStoreBlock", "StepTask", "call_of", "chain_fingerprint", "step"]
