"""Programs that run in other interpreters and namespaces: standard library only, Python 3.9 on.

Nothing here imports the rest of the package. `boot.py` makes the folder importable under a
private name, so these modules cannot be taken for a project's own.
"""
