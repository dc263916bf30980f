// Frames of outputs. Those with HTML as it was cleaned are made when somebody comes near: a frame costs as much as a page,
// though nothing is loaded into it yet. Those in which scripts run reach nothing of the page; it hears only how high they are.

const shut = (within) => all(".framed > noscript", within);

function openFrame(without) {
  without.replaceWith(made(without.textContent).firstElementChild);
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    shut(target).forEach(openFrame);
  }
}, { rootMargin: "100%" });

/** Frames that are open are not sent anew: what was sent is as it was. */
function openSameFrames(old, fresh) {
  if (!old.querySelector(".framed > iframe")) return;
  for (const without of shut(fresh)) {
    const frame = made(without.textContent).firstElementChild;
    const same = all(".framed > iframe", old).some((one) => one.isEqualNode(frame));
    if (same) without.replaceWith(frame);
  }
}

addEventListener("beforeprint", () => shut(document).forEach(openFrame));

addEventListener("message", ({ data, source }) => {
  const frame = all("iframe[data-measured]").find((one) =>
    one.contentWindow === source
  );
  if (frame && Number.isFinite(data?.height)) {
    frame.height = Math.min(Math.max(Math.ceil(data.height), 24), 2000);
  }
});
