"""What outside clients see: one envelope, the shapes of its data, events as lines.

The shapes are twins of the model, converted on purpose, so that either side can change without
the other. Unknown is null and never 0; times are whole milliseconds; lists are sorted.
"""
