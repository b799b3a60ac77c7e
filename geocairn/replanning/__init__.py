"""Replanning: who changes a plan after an input failure, what they are told, and what of it the reader is told."""
