// What the theme lacks: tables that fit a phone, a choice of a version above the tables of
// differences, a filter above the entries of troubleshooting, and pictures that open in
// full size.
"use strict";

const LONG = 40; // characters: a table with a longer cell is stacked on a phone
const WIDE = 4; // columns: a table with more is stacked too
const SHORT = 25; // characters: code up to this length is not broken, as `--target` at a hyphen
const NAME = 14; // characters: the same in the cells of tables, which are narrow

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
  for (const row of table.querySelectorAll("tbody tr")) {
    // A row with a first cell alone is the heading of the rows below it.
    row.classList.toggle("group", [...row.cells].slice(1).every((c) => !c.textContent.trim()));
    [...row.cells].forEach((cell, i) => {
      cell.dataset.head = heads[i] ?? "";
      if (cell.textContent.length > LONG) table.classList.add("stacked");
    });
  }
  // Without a heading of its first column a table has names and what they are.
  if (heads.length === 2 && !heads[0].trim()) table.classList.add("names");
  if (heads.length > WIDE) table.classList.add("stacked", "wide");
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
  const asked = new URLSearchParams(location.search).get("version"); // ?version=2.3
  if (minors.includes(asked)) select.value = asked;
  box.append("My program was written for ", select, count);
  document.querySelector("article section section").before(box);
  show();
}

// Whether a message contains the heading of an entry or a message that its text quotes, as
// `tf-lso help` decides. In these, "…" stands for any text.
function explains(entry, message) {
  const quoted = [...entry.querySelectorAll(":scope > p code")].map((c) => c.textContent);
  const heading = entry.querySelector("h3").firstChild.textContent;
  return [heading, ...quoted.filter((text) => text.split(/\s+/).length > 2)].some((form) => {
    const parts = form.trim().split("…");
    const escaped = parts.map((p) => p.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return parts.join("").trim() && new RegExp(escaped.join(".*"), "is").test(message);
  });
}

// Shows the entries that have all words of the box, or that explain the message in the box.
function addFilter(entries) {
  const box = document.createElement("p");
  box.className = "versions";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "your message, or words of it";
  input.setAttribute("aria-label", "words of the message to look for");
  const count = document.createElement("span");
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const entry of entries) {
      const text = entry.textContent.toLowerCase();
      const has = words.every((word) => text.includes(word));
      entry.hidden = !has && !explains(entry, input.value);
      shown += entry.hidden ? 0 : 1;
    }
    for (const part of document.querySelectorAll("article section section"))
      if (part.querySelector(":scope > section"))
        part.hidden = !part.querySelector(":scope > section:not([hidden])");
    count.textContent = ` ${shown} entries`;
  };
  input.addEventListener("input", show);
  const asked = new URLSearchParams(location.search).get("words"); // ?words=nan
  if (asked) input.value = asked;
  box.append(input, count);
  document.querySelector("article section section").before(box);
  show();
}

document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("td code"))
    if (code.textContent.length > NAME)
      code.innerHTML = code.innerHTML.replace(/[._](?=\w)|\((?=[^)])/g, "$&<wbr>");
    else code.style.whiteSpace = "nowrap";
  for (const link of document.querySelectorAll(".toc-tree a:not(:has(*))"))
    link.innerHTML = link.innerHTML.replace(/\.(?=\w)/g, "$&<wbr>");
  for (const title of document.querySelectorAll("h1"))
    title.innerHTML = title.innerHTML.replace(/\.(?=\w+<a class="headerlink")/, "$&<wbr>");
  for (const code of document.querySelectorAll("p code, li code"))
    if (code.textContent.length <= SHORT) code.style.whiteSpace = "nowrap";
  for (const picture of document.querySelectorAll("article img")) {
    const link = document.createElement("a");
    link.href = picture.src;
    picture.replaceWith(link);
    link.append(picture);
  }
  const tables = [...document.querySelectorAll("article table")].map((t) => [t, label(t)]);
  const filtered = tables.filter(([, column]) => column >= 0);
  if (filtered.length && document.title.startsWith("Differences")) addChoice(filtered);
  if (document.title.startsWith("Troubleshooting"))
    addFilter([...document.querySelectorAll("article section section section")]);
});
