// Draws charts where they stand.

let drawer = null;
const isDark = () => getComputedStyle(root).colorScheme === "dark";

async function draw(chart) {
  chart.dataset.drawn = "no";
  drawer ??= new Promise((done, failed) => {
    document.head.append(Object.assign(document.createElement("script"), { src: document.body.dataset.vega, onload: done, onerror: failed }));
  });
  try {
    await drawer.catch((error) => { drawer = null; throw error; });
    const spec = JSON.parse(chart.querySelector("script").textContent);
    if (isDark() && chart.dataset.dark) spec.config = JSON.parse(chart.dataset.dark);
    // What the policy of the page forbids, Vega is told not to do: style sheets of its own, compiled expressions, fetching.
    const loader = { load: () => Promise.reject(new Error("Nothing is fetched")), sanitize: () => Promise.reject(new Error("Nothing is linked")) };
    const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, loader, tooltip: { disableDefaultStyle: true } };
    chart.view = (await vegaEmbed(chart.querySelector("[data-stage]"), spec, options)).view;
    chart.dataset.drawn = "yes";
  } catch { /* its picture stays */ }
}

async function save(chart, kind) {
  const href = await chart.view.toImageURL(kind, 2);
  Object.assign(document.createElement("a"), { href, download: `chart.${kind}` }).click();
}
