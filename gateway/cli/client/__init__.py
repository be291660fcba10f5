"""The commands that talk to an agent, on the client library. Importing them loads click alone."""
