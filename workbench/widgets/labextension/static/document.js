// Model files in the file browser: a panel with a kernel of its own that opens the workbench on the file.

const TYPE = "graph-workbench-model", FACTORY = "Workbench", OPEN = "graph-workbench:open";
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><g fill="none" stroke="#0072b2" stroke-width="1.3">
<path d="M8 5v2M8 7 4.5 10M8 7l3.5 3"/></g><rect x="5" y="1.5" width="6" height="3.5" rx="1" fill="#d55e00"/>
<rect x="1.5" y="10" width="5.5" height="3.5" rx="1" fill="#009e73"/><rect x="9" y="10" width="5.5" height="3.5" rx="1" fill="#0072b2"/></svg>`;
const MARGIN = 8;

/** The Python that opens a file which lies in the kernel's folder; JSON's strings are Python's too. @param {string} path */
const codeFor = (path) => `import workbench as wb\nwb.open(${JSON.stringify(path.split("/").at(-1))})`;

/**
 * Why a file could not be opened, in words.
 * @param {{ ename: string, evalue: string }} error
 * @param {string} kernel
 */
function wordsFor({ ename, evalue }, kernel) {
  if (ename === "ModuleNotFoundError" && evalue.includes("'workbench'")) return `The kernel “${kernel}” does not have the package graph-workbench. Install it there: pip install graph-workbench`;
  return ename.endsWith("Error") && evalue ? evalue : `${ename}: ${evalue}`;
}

/**
 * The class of panels: outputs of the code that opens the file, and above them what went wrong.
 * @param {any} lumino the module `@lumino/widgets`
 * @param {any} outputs the module `@jupyterlab/outputarea`
 */
const panelClass = ({ Panel, Widget }, { OutputArea, OutputAreaModel, SimplifiedOutputArea }) => class extends Panel {
  /**
   * @param {any} context of the document
   * @param {any} rendermime
   */
  constructor(context, rendermime) {
    super();
    this.addClass("graph-workbench-document");
    this.context = context;
    this.message = new Widget();
    this.message.addClass("graph-workbench-message");
    this.message.hide();
    this.area = new SimplifiedOutputArea({ model: new OutputAreaModel({ trusted: true }), rendermime });
    this.addWidget(this.message);
    this.addWidget(this.area);
    context.sessionContext.statusChanged.connect((/** @type {unknown} */ _, /** @type {string} */ status) => {
      if (["dead", "autorestarting"].includes(status)) this.say("The kernel stopped. What is shown here is what it last sent.");
    });
    this.open();
  }

  /** Open the file in the kernel. */
  async open() {
    const { context } = this, session = context.sessionContext;
    this.message.hide();
    try {
      await context.ready;
      await session.ready;
      if (session.isDisposed) return;
      if (!session.session?.kernel) return this.say("No kernel is running, and the workbench needs one.");
      const reply = await OutputArea.execute(codeFor(context.localPath), this.area, session);
      if (reply?.content.status === "error") this.failed(reply.content);
    } catch (error) {
      if (!this.isDisposed && !session.isDisposed) this.say(`The kernel does not answer: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** @param {{ ename: string, evalue: string }} error */
  failed(error) {
    this.area.model.clear();
    this.say(`This file cannot be opened. ${wordsFor(error, this.context.sessionContext.kernelDisplayName)}`);
  }

  /** Show a message with a button that tries again. @param {string} text */
  say(text) {
    const words = document.createElement("div"), again = document.createElement("button");
    words.textContent = text;
    words.setAttribute("role", "alert");
    again.textContent = "Open again";
    again.className = "jp-mod-styled jp-mod-accept";
    again.onclick = () => this.again();
    this.message.node.replaceChildren(words, again);
    this.message.show();
  }

  async again() {
    const session = this.context.sessionContext;
    if (session.session?.kernel && session.kernelDisplayStatus !== "dead") return this.open();
    await session.restartKernel();
    return this.open();
  }

  /** @param {any} message */
  onResize(message) {
    super.onResize(message);
    if (this.node.clientHeight) this.node.style.setProperty("--wb-panel", `${this.node.clientHeight - 2 * MARGIN}px`);
  }
};

/**
 * The model of a document that the browser never reads, however large its file, and never writes.
 * @param {{ TextModelFactory: new () => any }} docregistry the module `@jupyterlab/docregistry`
 */
const modelFactory = ({ TextModelFactory }) => new (class extends TextModelFactory {
  get name() { return TYPE; }
  get contentType() { return "file"; }
  get fileFormat() { return null; }
  preferredLanguage() { return "python"; }
})();

/**
 * Open model files by double click, and from the file browser's menu.
 * @param {any} app
 * @param {Lab.Take} take
 * @param {any} rendermime
 * @param {any} files the file browsers, if there are any
 * @param {(rendermime: any, context: any) => void} shows lets a place show views
 */
async function addDocuments(app, take, rendermime, files, shows) {
  const names = ["@lumino/widgets", "@jupyterlab/outputarea", "@jupyterlab/docregistry", "@jupyterlab/ui-components"];
  const [lumino, outputs, docregistry, { LabIcon }] = await Promise.all(names.map(take));
  const Contents = panelClass(lumino, outputs), { docRegistry, commands } = app;
  const icon = new LabIcon({ name: "graph-workbench:model", svgstr: ICON });
  docRegistry.addFileType({ name: TYPE, displayName: "Model", extensions: [".onnx", ".mxr", ".pb", ".mlir", ".stablehlo", ".tflite"], fileFormat: "base64", contentType: "file", mimeTypes: ["application/octet-stream"], icon });
  docRegistry.addModelFactory(modelFactory(docregistry));
  /** @type {new (options: object) => any} */
  const Base = docregistry.ABCWidgetFactory;
  const Factory = class extends Base {
    /** @param {any} context */
    createNewWidget(context) {
      const own = rendermime.clone({ resolver: context.urlResolver }), { sessionContext, saveState, urlResolver } = context;
      shows(own, { sessionContext, saveState, urlResolver, model: { getMetadata: () => undefined } });
      context.save = context.saveAs = async () => {};
      const widget = new docregistry.DocumentWidget({ content: new Contents(context, own), context });
      widget.title.icon = icon;
      widget.toolbar.hide();
      return widget;
    }
  };
  docRegistry.addWidgetFactory(new Factory({
    name: FACTORY, modelName: TYPE, fileTypes: [TYPE], defaultFor: [TYPE], readOnly: true,
    canStartKernel: true, preferKernel: true, autoStartDefault: true, shutdownOnClose: true,
  }));
  if (!files) return;
  commands.addCommand(OPEN, {
    label: "Open in workbench",
    icon,
    execute: () => {
      for (const item of files.tracker.currentWidget?.selectedItems() ?? []) {
        if (docRegistry.getFileTypesForPath(item.path).some((/** @type {any} */ type) => type.name === TYPE)) commands.execute("docmanager:open", { path: item.path, factory: FACTORY });
      }
    },
  });
  app.contextMenu.addItem({ command: OPEN, selector: `.jp-DirListing-item[data-file-type="${TYPE}"]`, rank: 1 });
}

export { addDocuments, codeFor, wordsFor };
