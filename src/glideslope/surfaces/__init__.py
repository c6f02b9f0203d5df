"""Translate and show; no decisions."""
