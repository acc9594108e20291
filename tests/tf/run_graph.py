"""Runs a frozen graph in TensorFlow: `python run_graph.py graph.pb inputs.npz outputs.npz name...`."""

import os
import sys
from pathlib import Path

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf


def main(graph_file: str, inputs_file: str, outputs_file: str, *names: str) -> None:
    """Write the values of the named nodes."""
    message = tf.compat.v1.GraphDef()
    message.ParseFromString(Path(graph_file).read_bytes())
    with np.load(inputs_file) as arrays:
        inputs = {f"{name}:0": arrays[name] for name in arrays.files}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(message, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            found = session.run([f"{name}:0" for name in names], inputs)
    np.savez(outputs_file, **dict(zip(names, found, strict=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
