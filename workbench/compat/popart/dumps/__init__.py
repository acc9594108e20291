"""Dumps of an Ir: DOT files, text and JSON."""
