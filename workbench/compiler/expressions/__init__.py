"""Programs written as Python expressions: values with NumPy's operators, and their builder."""
