"""From records to a program of the workbench: effects become values that are passed on."""
