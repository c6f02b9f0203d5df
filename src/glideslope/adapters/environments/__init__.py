"""Where commands run: on the live tree, or on a throw-away view of a snapshot."""
