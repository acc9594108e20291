"""The runtimes of devices, one per file, with the interface in `base`; `registry` lists the devices."""
