"""Laws: rules tried on random programs that match their patterns."""
