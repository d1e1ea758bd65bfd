// Tabs, keys and the loop: the address after # names the view, each change of what is known draws it again.
const VIEWS = [["overview", "Overview", Overview], ["topics", "Topics", Topics], ["exchanges", "Exchanges", Exchanges], ["producers", "Producers", Producers], ["transactions", "Transactions", Transactions], ["groups", "Groups", Groups], ["faults", "Faults", Faults]];
let mounted = null, waits = false;
const route = () => { const [name, ...args] = location.hash.replace(/^#/, "").split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } }); return { view: VIEWS.find(([key]) => key === name) || VIEWS[0], args }; };
function draw() {
  if (!S.snapshot) return;
  const { view, args } = route(), focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.k : null;
  if (mounted !== view[0]) {
    mounted = view[0];
    $("view").replaceChildren();
    const root = h("div", { class: view[0] });
    $("view").append(root);
    view[2].root = root;
    if (view[2].mount) view[2].mount(root);
  }
  put($("tabs"), VIEWS.map(([key, text], at) => h("a", { href: `#${key}`, "aria-current": key === view[0] ? "page" : null }, text, h("kbd", null, at + 1), key === "overview" && S.findings.some((each) => each.level === "bad") ? h("b", { title: "records lost, or readers wait", class: "hot" }, S.findings.filter((each) => each.level === "bad").length) : null, key === "faults" && S.faults.length ? h("b", { title: "rules" }, S.faults.length) : null)));
  view[2].update(args);
  tools();
  if (focus) { const again = document.querySelector(`[data-k="${CSS.escape(focus)}"]`); if (again) again.focus({ preventScroll: true }); }
}
function refresh() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => { waits = false; draw(); });
}
function tools() {
  const snap = S.snapshot;
  $("what").textContent = snap ? snap.kind === "proxy" ? "behind a proxy" : `stub of Kafka ${snap.release}` : "";
  $("what").title = snap ? `cluster ${snap.cluster_id}` : "";
  if (!S.live) { put($("tools"), h("span", { class: "live", title: "A moment: it does not change" }, `moment of ${(S.shared || "").replace("T", " ").replace("+00:00", " UTC")}`)); return; }
  put($("tools"), h("span", { class: `live ${S.held ? "" : S.connected ? "on" : "off"}` }, S.held ? "paused" : S.connected ? "live" : "no connection"),
    h("button", { onclick: hold, title: "Space" }, S.held ? "Go on" : "Pause"), h("a", { href: "share", download: "", class: "button", id: "share", title: "s: this moment as one HTML file" }, "Share"));
}
function hold() {
  if (!S.live) return;
  S.held = !S.held;
  if (S.held) source.close(); else listen(); // the first message after that has everything
  tools();
}
const KEYS = [["1–7", "views"], ["j k ↓ ↑", "next, previous row"], ["Enter", "open"], ["Esc", "close, back"], ["/", "filter exchanges"], ["Space", "pause, go on"], ["s", "share this moment"], ["?", "this help"]];
function help(open) { const it = $("help"); it.hidden = open === undefined ? !it.hidden : !open; put(it, h("dl", null, KEYS.map(([key, text]) => [h("dt", null, h("kbd", null, key)), h("dd", null, text)]))); }
function step(by) {
  const list = [...document.querySelectorAll("tr.pick")], at = list.indexOf(document.activeElement);
  const next = list[Math.max(0, Math.min(list.length - 1, at + by))] || list[0];
  if (next) { next.focus(); if (/^exchanges\/\d/.test(location.hash.slice(1)) && next.dataset.k.startsWith("x")) history.replaceState(null, "", `#exchanges/${next.dataset.k.slice(1)}`), draw(); }
}
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") { help(false); if (typing) event.target.blur(); else { const { view, args } = route(); if (args.length) location.hash = view[0]; } return; }
  if (typing) return;
  const number = Number(event.key);
  if (number >= 1 && number <= VIEWS.length) location.hash = VIEWS[number - 1][0];
  else if (event.key === "j" || event.key === "ArrowDown" && document.activeElement.classList.contains("pick")) { event.preventDefault(); step(1); }
  else if (event.key === "k" || event.key === "ArrowUp" && document.activeElement.classList.contains("pick")) { event.preventDefault(); step(-1); }
  else if (event.key === "/") { event.preventDefault(); location.hash = "exchanges"; setTimeout(() => { const it = $("filter"); if (it) it.focus(); }, 50); }
  else if (event.key === " " && !/^(BUTTON|A)$/.test(event.target.tagName) && event.target.getAttribute("role") !== "button") { event.preventDefault(); hold(); }
  else if (event.key === "s" && S.live) $("share").click();
  else if (event.key === "?") help();
});
addEventListener("hashchange", draw);
addEventListener("resize", refresh);
(function begin() {
  const data = $("moment").textContent.trim();
  if (data && data !== "null") { const moment = JSON.parse(data); S.shared = moment.taken; merge(moment); draw(); return; }
  S.live = true;
  listen();
  setInterval(() => { if (S.snapshot && !S.held && ["overview", "transactions", "topics"].includes(mounted) && S.snapshot.clock === "real" && document.visibilityState === "visible" && (S.snapshot.transactions.some((txn) => txn.state === "Ongoing"))) refresh(); }, 1000);
})();
