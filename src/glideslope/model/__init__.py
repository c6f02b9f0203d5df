"""Frozen values, enums and ids; no behaviour beyond validation."""
