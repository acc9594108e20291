"""Laws: rules tried on sample programs made for their patterns."""
