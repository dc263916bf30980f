// Files that a person drops on the page or chooses.
//   data-upload="URL"      on a file input: where a file goes, with its name as ?name=, its content as the body
//   data-names="NAME"      the field of its form that then names the files
//   data-notebooks="URL"   where a notebook goes instead, which is opened then
const isNotebook = (file) => /\.ipynb$/i.test(file.name);

async function upload(files, chooser) {
  let opened = null;
  for (const file of files) {
    const url = isNotebook(file) && chooser.dataset.notebooks ? chooser.dataset.notebooks : chooser.dataset.upload;
    say(`Uploading ${file.name}`);
    try {
      const answer = await ask(`${url}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
      const told = await answer.json();
      if (!answer.ok || told.error) { say([told.error, told.hint].filter(Boolean).join("\n"), true); continue; }
      say(told.say);
      show(told.parts ?? {});
      opened ??= told.go;
      if (told.name && chooser.dataset.names) addName(chooser.form.elements[chooser.dataset.names], told.name);
    } catch {
      say(`${file.name} could not be sent: there is no connection, or it is a folder`, true);
    }
  }
  // The page is left only once the last file has gone.
  if (opened) location.assign(opened);
}

/** Name a file that was sent in the field of the form that lists them. */
function addName(field, name) {
  field.value = [...field.value.split(",").map((one) => one.trim()).filter(Boolean), name].join(", ");
}

function takeFiles(chooser) {
  chooser.addEventListener("change", async () => {
    await upload([...chooser.files], chooser);
    chooser.value = "";
  });
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  let inside = 0;
  const mark = (change) => { inside = Math.max(inside + change, 0); document.body.classList.toggle("dropping", inside > 0); };
  addEventListener("dragenter", (event) => { if (carries(event)) { event.preventDefault(); mark(1); } });
  addEventListener("dragover", (event) => { if (carries(event)) event.preventDefault(); });
  addEventListener("dragleave", (event) => { if (carries(event)) mark(-1); });
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    mark(-inside);
    upload([...event.dataTransfer.files], chooser);
  });
}

if (document.body.dataset.role !== "view") all("[data-upload]").forEach(takeFiles);
