"""The doors of the service, one file for each kind of question."""
