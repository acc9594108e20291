"""Every view in the hosts that are installed apart: Notebook 7 and marimo, in headless Chromium."""
