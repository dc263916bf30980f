// What stands between a host and an app (SEP-1865): passes on what they say, and is of another origin than the host.

const inner = document.createElement("iframe");
inner.style = "width: 100%; height: 100%; border: 0";
inner.sandbox = "allow-scripts";
addEventListener("message", ({ source, data }) => {
  if (source === inner.contentWindow) parent.postMessage(data, "*");
  else if (data.method === "ui/notifications/sandbox-resource-ready") {
    inner.srcdoc = data.params.html;
  } else inner.contentWindow.postMessage(data, "*");
});
document.body.append(inner);
parent.postMessage({
  jsonrpc: "2.0",
  method: "ui/notifications/sandbox-proxy-ready",
  params: {},
}, "*");
