"""Prefect blocks over the core: the checkpoint store."""

from geocairn.blocks.checkpoint_serializer import CheckpointSerializer
from geocairn.blocks.checkpoint_store import CheckpointStoreBlock

__all__ = ["CheckpointSerializer", "CheckpointStoreBlock"]
