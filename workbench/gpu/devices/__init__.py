"""The runtimes of devices, one a file, behind the protocol of `base`; `registry` knows which are here."""
