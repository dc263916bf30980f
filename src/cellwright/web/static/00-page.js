// What the page does by itself. The files of this folder are joined in the order of their names and share one scope.
// HTML says what is wanted in attributes:
//   data-live="URL"       on <main>: parts of the page are sent again from there when they change; data-seq: from where on
//   data-load="URL"       an element's content is loaded when it is first seen, and again when a data-touched around it is touched
//   data-within           a link or a form changes what the data-load around it has loaded, instead of leaving the page
//   data-again            what was loaded is loaded again every ten seconds, while somebody looks
//   data-deed             a form is sent without leaving the page; the answer says what to show; data-sure asks first;
//                         data-once sends no second one before it; the data-closes around it is closed after it
//   data-edit             opens the editor of the cell that it is in; data-leave saves and closes it, data-discard closes it
//   data-zoom             a picture opens larger, or the one in the element with this id
//   data-chart            is drawn from the specification in it; data-save="png" or "svg" saves it
//   data-key="x"          a key presses this button or follows this link
//   data-since="seconds"  shows how long ago that was, counting
//   data-theme-switch     light or dark
"use strict";

const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
if (stored("theme")) root.dataset.theme = stored("theme");

// Saying things -------------------------------------------------------------------------------------------------------

function say(text, problem = false) {
  if (!text) return;
  const line = document.createElement("p");
  line.textContent = text;
  if (problem) line.className = "problem";
  document.getElementById("says").append(line);
  setTimeout(() => line.remove(), problem ? 12000 : 4000);
}
