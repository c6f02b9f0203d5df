"""The fast paths of the command line: standard library only, so that they start in milliseconds."""
