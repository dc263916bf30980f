// Frames in which scripts of outputs run. They reach nothing of the page; it hears only how high they are.

addEventListener("message", ({ data, source }) => {
  const frame = all("iframe[data-measured]").find((one) =>
    one.contentWindow === source
  );
  if (frame && Number.isFinite(data?.height)) {
    frame.height = Math.min(Math.max(Math.ceil(data.height), 24), 2000);
  }
});
