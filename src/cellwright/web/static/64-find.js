// Finds and replaces in all cells of a notebook. What is found is marked where the browser can mark it.

const findForm = () => document.getElementById("find");
let matches = [], matchAt = -1;

function openFind() {
  const form = findForm(), said = getSelection().toString();
  form.hidden = false;
  if (said && !said.includes("\n")) form.elements.find.value = said;
  form.elements.find.focus();
  form.elements.find.select();
  find();
}

/** What is looked for, as a pattern that finds all of it; none where nothing is. */
function pattern() {
  const { find: text, case: sameCase, word } = findForm().elements;
  if (!text.value) return null;
  const plain = text.value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(word.checked ? `(?<![\\p{L}\\p{N}_])${plain}(?![\\p{L}\\p{N}_])` : plain, sameCase.checked ? "gu" : "giu");
}

function find() {
  const wanted = pattern();
  matches = wanted ? allCells().flatMap((cell) => [...sourceOf(cell).matchAll(wanted)].map((match) => ({ id: cell.id, from: match.index }))) : [];
  matchAt = -1;
  tellFound();
  mark(wanted);
}

function tellFound() {
  const text = findForm().elements.find.value;
  document.getElementById("found").textContent = !text ? "" : matches.length ? `${matchAt < 0 ? "" : `${matchAt + 1} of `}${matches.length} found` : "Nothing found";
}

function mark(wanted) {
  if (!globalThis.CSS?.highlights || !globalThis.Highlight) return;
  const ranges = wanted ? all("#cells .shown").flatMap((shown) => rangesIn(shown, wanted)) : [];
  CSS.highlights.set("found", new Highlight(...ranges));
}

/** Matches may begin in one coloured piece of code and end in another. */
function rangesIn(shown, wanted) {
  const pieces = [], walker = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
  let text = "";
  while (walker.nextNode()) { pieces.push([text.length, walker.currentNode]); text += walker.currentNode.data; }
  const point = (place) => { const [from, node] = pieces.findLast(([start]) => start <= place); return [node, Math.min(place - from, node.length)]; };
  return [...text.matchAll(wanted)].map((match) => {
    const range = new Range();
    range.setStart(...point(match.index));
    range.setEnd(...point(match.index + match[0].length));
    return range;
  });
}

function goToMatch(by) {
  if (!matches.length) return;
  matchAt = (matchAt + by + matches.length) % matches.length;
  const cell = document.getElementById(matches[matchAt].id);
  cell?.scrollIntoView({ block: "center" });
  lastCell = matches[matchAt].id;
  for (const one of all(".found-here", cells())) one.classList.remove("found-here");
  cell?.classList.add("found-here");
  tellFound();
}

async function replaceAll() {
  const wanted = pattern(), fresh = findForm().elements.replace.value;
  if (!wanted) return;
  await saveAll();
  const sources = allCells().flatMap((cell) => {
    const source = sourceOf(cell), made = source.replace(wanted, () => fresh);
    return made === source ? [] : [[idOf(cell), Number(cell.querySelector("[name=version]").value), made]];
  });
  if (sources.length) await change("edits/rewrite", { sources: JSON.stringify(sources) });
  find();
}

function closeFind() {
  findForm().hidden = true;
  matches = [];
  for (const one of all(".found-here", cells())) one.classList.remove("found-here");
  mark(null);
  goTo(current());
}

if (findForm()) {
  findForm().addEventListener("submit", (event) => { event.preventDefault(); goToMatch(1); });
  findForm().addEventListener("input", (event) => { if (event.target.name !== "replace") find(); });
  findForm().addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.preventDefault(); closeFind(); }
    else if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); goToMatch(-1); }
  });
  findForm().addEventListener("click", (event) => {
    const what = event.target.closest("[data-find]")?.dataset.find;
    if (what === "back") goToMatch(-1); else if (what === "close") closeFind(); else if (what === "replace") inOrder(replaceAll);
  });
}
