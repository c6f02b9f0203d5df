"""Public fakes and contract suites for those who plug in."""
