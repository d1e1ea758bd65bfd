// Elements, numbers and times. Texts become text nodes, so nothing from a record or a name is ever read as HTML.
const NS = "http://www.w3.org/2000/svg";
function make(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}
const h = (tag, props, ...children) => make(document.createElement(tag), props, children);
const s = (tag, props, ...children) => make(document.createElementNS(NS, tag), props, children);
const $ = (id) => document.getElementById(id);
const put = (element, ...children) => { element.replaceChildren(); make(element, null, children); return element; };
const cut = (text, longest) => { const all = String(text); return all.length > longest ? all.slice(0, Math.max(1, longest - 1)) + "…" : all; };
// What fits into so many pixels of a drawing, in its font: names may have letters that are wider than others.
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text) {
  if (!ruler.font.startsWith("10.5px")) ruler.font = `10.5px ${getComputedStyle(document.documentElement).getPropertyValue("--mono")}`;
  return ruler.measureText(text).width;
}
function fit(text, pixels) {
  const all = [...String(text).slice(0, Math.max(1, pixels))];
  if (widthOf(all.join("")) <= pixels && all.join("") === String(text)) return String(text);
  let fits = 0, most = all.length;
  while (fits < most) {
    const middle = Math.ceil((fits + most) / 2);
    if (widthOf(all.slice(0, middle).join("") + "…") <= pixels) fits = middle; else most = middle - 1;
  }
  return all.slice(0, fits).join("") + "…";
}
// Names from outside: control and direction characters are shown as their numbers, so that a name cannot look like another.
const shown = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
  (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const num = (value) => value === null || value === undefined ? "–" : Number(value).toLocaleString("en");
const counted = (count, one) => `${num(count)} ${one}${count === 1 ? "" : "s"}`;
function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const at = new Date(ms);
  return at.getTime() < 1e9 ? `${num(ms)} ms` : at.toISOString().slice(11, 23);
}
function ago(ms) {
  if (ms === null || ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60e3) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 3600e3 ? `${Math.floor(ms / 60e3)} min ${Math.round(ms % 60e3 / 1000)} s` : `${(ms / 3600e3).toFixed(1)} h`;
}
const pill = (kind, text) => h("span", { class: `pill ${kind}` }, text);
const panel = (title, note, ...children) => h("section", { class: "panel" }, title && h("h2", null, title, note && h("small", null, note)), children);
function table(heads, rows, props) {
  return h("div", { class: "wrap" }, h("table", props, h("thead", null, h("tr", null, heads.map((head) =>
    h("th", { class: head.startsWith("#") ? "num" : null, scope: "col" }, head.replace(/^#/, ""))))), h("tbody", null, rows)));
}
const empty = (...text) => h("p", { class: "empty" }, text);
const cell = (content, kind) => h("td", { class: kind }, content);
// A row that opens a place by click or Enter.
function pick(place, key, cells, kind) {
  const open = () => { location.hash = place; };
  return h("tr", { class: `pick ${kind || ""}`, tabindex: "-1", "data-k": key, onclick: open, onkeydown: (e) => { if (e.key === "Enter") { e.preventDefault(); open(); } } }, cells);
}
// What opens a place by click, Enter or the space bar. `place` may be a function, because a place may be costly to find.
function opens(place, key) {
  const go = () => { location.hash = typeof place === "function" ? place() : place; };
  return { class: "hit", tabindex: "0", role: "button", "data-k": key, onclick: go, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); go(); } } };
}
const enc = encodeURIComponent;
const lane = (topic, partition) => `#topics/${enc(topic)}/${partition}`;
const link = (place, ...text) => h("a", { href: place }, text);
const partitionLink = (topic, partition) => link(lane(topic, partition), `${shown(topic)}-${partition}`);
const exchangeLink = (n, text) => link(`#exchanges/${n}`, text || `#${n}`);
function toast(text) {
  const it = $("toast");
  it.textContent = text;
  it.classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => it.classList.remove("on"), 2500);
}
