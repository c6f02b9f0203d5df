"""The fast paths of the command line: standard library only, so that they start in milliseconds.

What any client of the daemon needs before it has loaded anything else lives here too: where the
state folder and the socket are, and the lines that are spoken over it.
"""

VERSION = "0.1.0"
