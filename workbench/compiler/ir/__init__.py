"""The IR: types, shapes, operations, instructions, modules and programs."""
