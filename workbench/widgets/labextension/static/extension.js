// The plugins: views in outputs, and model files from the file browser.

import { addTo, managerOf, outputClass } from "./output.js";
import { renew } from "./saving.js";
import { addDocuments } from "./document.js";

/**
 * The plugins for JupyterLab and Notebook.
 * @param {Lab.Take} take gives a module that they share
 */
async function plugins(take) {
  const names = ["@lumino/widgets", "@jupyterlab/rendermime", "@jupyterlab/console", "@jupyterlab/filebrowser", "@jupyter-widgets/jupyterlab-manager"];
  const [lumino, { IRenderMimeRegistry }, consoles, browser, widgets] = await Promise.all(names.map(take));
  const Output = outputClass(lumino);
  /** Let a place show views; the models of the live ones. @type {(rendermime: any, context?: any) => Map<string, any>} */
  const shows = (rendermime, context) => {
    const manager = context && widgets ? managerOf(widgets, context, rendermime) : new Promise(() => {});
    const models = new Map();
    addTo(Output, { rendermime, manager, models });
    return models;
  };
  return [
    {
      id: "graph-workbench:views",
      description: "Shows views of the graph workbench, without a kernel too.",
      autoStart: true,
      requires: [IRenderMimeRegistry],
      optional: [consoles?.IConsoleTracker].filter(Boolean),
      /** @type {(app: any, rendermime: any, tracker: any) => void} */
      activate(app, rendermime, tracker) {
        document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("style.css", import.meta.url).href }));
        shows(rendermime);
        tracker?.widgetAdded.connect((/** @type {any} */ _, /** @type {any} */ { console: code }) => shows(code.rendermime, code));
        app.docRegistry.addWidgetExtension("Notebook", {
          /** @type {(panel: any, context: any) => void} */
          createNew(panel, context) {
            const models = shows(panel.content.rendermime, context);
            context.saveState.connect((/** @type {unknown} */ _, /** @type {string} */ state) => state === "started" && renew(context.model, models));
          },
        });
      },
    },
    {
      id: "graph-workbench:files",
      description: "Opens model files in the workbench.",
      autoStart: true,
      requires: [IRenderMimeRegistry],
      optional: [browser?.IFileBrowserFactory].filter(Boolean),
      /** @type {(app: any, rendermime: any, files: any) => Promise<void>} */
      activate: (app, rendermime, files) => addDocuments(app, take, rendermime, files, shows),
    },
  ];
}

export { plugins };
