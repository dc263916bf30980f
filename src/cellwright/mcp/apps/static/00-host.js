// Speaks with the host that shows the app: MCP's JSON-RPC in messages between windows (SEP-1865).

globalThis.app = { views: {}, hears: {}, context: {}, able: {} };

{
  const waiting = new Map();
  let asked = 0;

  const send = (message) =>
    parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

  app.tell = (method, params = {}) => send({ method, params });

  app.ask = (method, params = {}) =>
    new Promise((done, failed) => {
      asked += 1;
      waiting.set(asked, { done, failed });
      send({ id: asked, method, params });
    });

  /** Call a tool of our server; what it answers as data. */
  app.call = async (name, args) => {
    const result = await app.ask("tools/call", { name, arguments: args });
    if (result.isError) throw new Error(app.textOf(result));
    return result.structuredContent ?? parsed(result.content.at(-1)?.text);
  };

  /** The data of a reply that came as text; of one that is words there is none. */
  const parsed = (text) => {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  };

  app.textOf = ({ content = [] }) =>
    content.map((part) => part.text ?? "").filter(Boolean).join("\n");

  addEventListener("message", ({ source, data }) => {
    if (source !== parent || data?.jsonrpc !== "2.0") return;
    const { id, method, params = {}, result, error } = data;
    if (method === undefined) {
      const one = waiting.get(id);
      waiting.delete(id);
      if (error) one?.failed(new Error(error.message));
      else one?.done(result);
    } else if (id === undefined) {
      app.hears[method]?.(params);
    } else if (method === "ping" || method === "ui/resource-teardown") {
      send({ id, result: {} });
    } else {
      send({
        id,
        error: { code: -32601, message: `There is no ${method} here` },
      });
    }
  });
}
