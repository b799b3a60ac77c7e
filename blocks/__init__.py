"""Prefect blocks over the core: the checkpoint store and the recovery policy."""

from geocairn.blocks.checkpoint_serializer import CheckpointSerializer
from geocairn.blocks.checkpoint_store import CheckpointStoreBlock
from geocairn.blocks.recovery_policy import RecoveryPolicyBlock

__all__ = ["CheckpointSerializer", "CheckpointStoreBlock", "RecoveryPolicyBlock"]
