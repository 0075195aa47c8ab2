// Runs in the page before its own scripts, where Electron would run the preload in a world apart: here both share
// one, so that isolation is not shown. PRELOAD stands for the bundled preload.
/* global window, MessageChannel */
(() => {
  if (window !== window.top) return;
  const toMain = window.__standin;
  const listeners = new Map();
  const inPage = new Map();
  const only = (what, parts) =>
    new Proxy(parts, {
      get: (target, name) => {
        if (name in target) return target[name];
        throw new Error(`The stand-in has no ${what}.${String(name)}.`);
      },
    });
  const ipcRenderer = only('ipcRenderer', {
    invoke: async (channel, ...args) => {
      const { error } = await toMain({ type: 'invoke', channel, args });
      if (error !== undefined) throw new Error(error);
    },
    send: (channel, ...args) => void toMain({ type: 'send', channel, args }),
    on: (channel, listener) => listeners.set(channel, listener),
  });
  const contextBridge = only('contextBridge', {
    exposeInMainWorld: (name, value) => {
      window[name] = Object.freeze(value);
    },
  });
  window.__standinPort = (channel, id) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => void toMain({ type: 'port', id, data });
    inPage.set(id, port1);
    listeners.get(channel)?.({ ports: [port2] });
  };
  window.__standinDeliver = (id, data) => inPage.get(id)?.postMessage(data);
  window.__standinClose = (id) => inPage.get(id)?.close();
  const require = (name) => {
    if (name === 'electron') return only('electron', { ipcRenderer, contextBridge });
    throw new Error(`A sandboxed preload can not load ${name}.`);
  };
  const module = { exports: {} };
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- the bundled script is written into this function
  ((require, module, exports) => {
    /* PRELOAD */
  })(require, module, module.exports);
})();
