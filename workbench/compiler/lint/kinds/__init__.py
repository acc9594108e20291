"""The kinds of findings, a file each; a new file is found automatically."""
