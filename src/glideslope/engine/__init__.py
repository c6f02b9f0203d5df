"""The async shell that feeds the machines and performs their orders through ports."""
