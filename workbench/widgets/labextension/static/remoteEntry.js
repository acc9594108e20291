// The entry that JupyterLab loads: a container as module federation defines it, written by hand.

{
  const here = /** @type {HTMLScriptElement} */ (document.currentScript).src;
  /** Modules that JupyterLab and its extensions share: name, version, and how to get them. @type {Lab.Scope} */
  let shared = {};

  /** A shared module; undefined if nobody shares it. @param {string} name */
  const take = async (name) => {
    const [version] = Object.values(shared[name] ?? {});
    return version && (await version.get())();
  };

  const container = {
    /** @param {Lab.Scope} scope */
    init(scope) { shared = scope; },
    async get() {
      const { plugins } = await import(new URL("extension.js", here).href);
      const made = await plugins(take);
      return () => ({ __esModule: true, default: made });
    },
  };
  Object.assign((globalThis._JUPYTERLAB ??= {}), { "graph-workbench": container });
}
