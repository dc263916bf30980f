// A host of apps, made with the package's own bridge: a client of the server, and a sandbox of another origin for each app.

import {
  Client,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import {
  AppBridge,
  getToolUiResourceUri,
  PostMessageTransport,
} from "@modelcontextprotocol/ext-apps/app-bridge";

const ABOUT = { name: "test-host", version: "1" };
const MIME = "text/html;profile=mcp-app";
const READY = "ui/notifications/sandbox-proxy-ready";

let client, tools, bridge, theme = "light";

globalThis.host = { told: [] };

host.connect = async (token) => {
  client = new Client(ABOUT, {
    capabilities: {
      extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [MIME] } },
    },
  });
  await client.connect(
    new StreamableHTTPClientTransport(new URL("/mcp", location.href), {
      requestInit: { headers: { authorization: `Bearer ${token}` } },
    }),
  );
  tools = (await client.listTools()).tools;
};

/** What the model calls: without an app. */
host.call = (name, args) => client.callTool({ name, arguments: args });

/** Call a tool and show its app in place of the one before, as a chat does: the app is there before the result. */
host.show = async (name, args) => {
  const uri = getToolUiResourceUri(tools.find((tool) => tool.name === name));
  const { contents: [{ text: html, mimeType, _meta }] } = await client
    .readResource({ uri });
  if (mimeType !== MIME) throw new Error(mimeType);
  await bridge?.teardownResource({});
  await bridge?.close();
  const frame = document.createElement("iframe");
  frame.style = "width: 100%; border: 0; display: block";
  const isReady = new Promise((done) =>
    addEventListener(
      "message",
      ({ source, data }) =>
        source === frame.contentWindow && data?.method === READY && done(),
    )
  );
  const policy = encodeURIComponent(JSON.stringify(_meta.ui.csp));
  frame.src = `http://sandbox.example/?csp=${policy}`;
  document.body.replaceChildren(frame);
  await isReady;
  bridge = new AppBridge(client, ABOUT, {
    serverTools: {},
    serverResources: {},
    updateModelContext: { text: {} },
  }, { hostContext: { theme } });
  bridge.onupdatemodelcontext = ({ content }) => {
    host.told.push(content[0].text);
    return Promise.resolve({});
  };
  bridge.onsizechange = ({ height }) => {
    frame.style.height = `${height}px`;
  };
  const isThere = new Promise((done) => bridge.oninitialized = done);
  await bridge.connect(
    new PostMessageTransport(frame.contentWindow, frame.contentWindow),
  );
  await bridge.sendSandboxResourceReady({ html, csp: _meta.ui.csp });
  await isThere;
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(await host.call(name, args));
};

host.light = (wanted) => {
  theme = wanted;
  document.documentElement.style.colorScheme = wanted;
  bridge?.setHostContext({ theme });
};
