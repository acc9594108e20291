"""The text form: printing and parsing."""
