// Tables: each cell knows its column's heading, which a phone shows. Where tables have a
// column "Versions", a choice of a version hides the rows of other versions.
"use strict";

const ALL = "all versions";
const KERAS_3 = "Keras 3";

// Whether "2.0–2.3", "2.9", "Keras 3" or a list of them with commas names the version.
function names(versions, chosen) {
  if (chosen === ALL) return true;
  return versions.split(",").some((part) => {
    if (part.trim() === KERAS_3 || chosen === KERAS_3) return part.trim() === chosen;
    const [first, last] = part.trim().split("–").map((v) => Number(v.split(".")[1]));
    const minor = Number(chosen.split(".")[1]);
    return first <= minor && minor <= (last ?? first);
  });
}

function label(table) {
  const heads = [...table.querySelectorAll("thead th")].map((th) => th.textContent);
  for (const row of table.querySelectorAll("tbody tr"))
    [...row.cells].forEach((cell, i) => { cell.dataset.head = heads[i] ?? ""; });
  return heads.indexOf("Versions");
}

function addChoice(tables) {
  const box = document.createElement("p");
  box.className = "versions";
  const select = document.createElement("select");
  select.setAttribute("aria-label", "the version that the program was written for");
  const minors = Array.from({ length: 16 }, (_, minor) => `2.${minor}`);
  for (const version of [ALL, ...minors, KERAS_3])
    select.add(new Option(/^2/.test(version) ? `TensorFlow ${version}` : version, version));
  const count = document.createElement("span");
  const show = () => {
    let shown = 0;
    for (const [table, column] of tables)
      for (const row of table.tBodies[0].rows) {
        row.hidden = !names(row.cells[column].textContent, select.value);
        row.style.display = row.hidden ? "none" : "";
        shown += row.hidden ? 0 : 1;
      }
    count.textContent = ` ${shown} rows`;
  };
  select.addEventListener("change", show);
  box.append("My program was written for ", select, count);
  document.querySelector("#versions-choice, article h1").after(box);
  show();
}

document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("article table")].map((t) => [t, label(t)]);
  const filtered = tables.filter(([, column]) => column >= 0);
  if (filtered.length && document.title.startsWith("Differences")) addChoice(filtered);
});
