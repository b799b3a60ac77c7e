"""The recovery policy as a Prefect block: what an operator edits in the UI.

What always holds: the block has the fields of `geocairn.policy.RecoveryPolicy` and no rule of its own, so a policy
that is wrong is refused with the same reason wherever it is written; it is loaded when a run starts or is resumed.
"""

from __future__ import annotations

from typing import Any, ClassVar

from prefect.blocks.core import Block
from pydantic import ConfigDict

from geocairn.failure import InputFailure
from geocairn.policy import DEFAULT_POLICY, RecoveryPolicy


class RecoveryPolicyBlock(Block, RecoveryPolicy):
    """What is done about each class of failure: actions, budgets, delays, and what needs a person's word.

    Example:
        Save one, and name it in the checkpoint store block or in a deployment's parameter `recovery_policy`:
        ```python
        from geocairn.blocks import RecoveryPolicyBlock

        RecoveryPolicyBlock(retries=5, on_input="halt").save("BLOCK_NAME")
        policy = RecoveryPolicyBlock.load("BLOCK_NAME").policy()
        ```
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=False)

    _block_type_name: ClassVar[str | None] = "geocairn recovery policy"
    _block_type_slug: ClassVar[str | None] = "geocairn-recovery-policy"
    _description: ClassVar[str | None] = (
        "Which action each class of failure gets in chains of geoprocessing steps, with budgets and delays."
    )
    _documentation_url: ClassVar[Any] = "https://pypi.org/project/geocairn/"

    def policy(self) -> RecoveryPolicy:
        """Return the policy."""
        return RecoveryPolicy(**{name: getattr(self, name) for name in RecoveryPolicy.model_fields})


def policy_named(name: str) -> RecoveryPolicy:
    """Return the saved policy of that name as it is now; the built-in one for an empty name.

    Raises
    ------
    InputFailure : where there is none of that name, or the saved one is wrong.
    """
    if not name:
        return DEFAULT_POLICY
    slug = RecoveryPolicyBlock.get_block_type_slug()
    try:
        block: Any = RecoveryPolicyBlock.load(name.removeprefix(f"{slug}/"))
    except ValueError as error:
        raise InputFailure(
            f"there is no recovery policy {name!r} that can be loaded ({error})",
            where="recovery policy",
            remedy="save a RecoveryPolicyBlock under that name, or name another one",
        ) from error
    policy: RecoveryPolicy = block.policy()
    return policy
