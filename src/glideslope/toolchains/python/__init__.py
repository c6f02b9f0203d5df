"""Python: projects, modules and their imports, static rungs, test rungs."""

from glideslope.toolchains.python.toolchain import PythonToolchain

__all__ = ["PythonToolchain"]
