// What the extension uses of JupyterLab. Only the type checker reads this file.

declare var _JUPYTERLAB: Record<string, unknown>;

declare namespace Lab {
  type Scope = Record<string, Record<string, { get(): Promise<() => any> }>>;
  type Take = (name: string) => Promise<any>;
  interface Signal<T = any> { connect(slot: (sender: any, args: T) => void): void }
  interface Mime { data: Record<string, any>; metadata: Record<string, any>; trusted: boolean }
  interface Manager {
    restoredStatus: boolean;
    has_model(id: string): boolean;
    get_model(id: string): Promise<any>;
    create_view(model: any): Promise<{ luminoWidget: any }>;
  }
  interface SessionContext {
    ready: Promise<void>; isDisposed: boolean; session: { kernel: any } | null; kernelDisplayName: string;
    kernelChanged: Signal; statusChanged: Signal<string>; restartKernel(): Promise<void>;
  }
  /** Where outputs are rendered: their renderers, the widgets of its kernel once there is one, and the models of those shown. */
  interface Place { rendermime: any; manager: Promise<Manager>; models: Map<string, any> }
}

/** A view in its saved form, see saved.py. */
interface SavedView {
  entry: string;
  values: Record<string, any>;
  answers: Record<string, { trait: string; by: Record<string, unknown> }>;
}
