// GraphView: one program with groups to open, and an inspector.

import { GraphShell } from "./graph_shell.js";
import { renderer } from "./shell.js";

const render = renderer((model, el, data) => new GraphShell(model, el, data));

export { render };
