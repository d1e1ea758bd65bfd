// The journal as a table, and one exchange with those around it as a sequence diagram.
function told(row) {
  if (row.outcome === "lost") return row.doubt ? "no response, in doubt" : "no response";
  if (row.outcome === "open") return row.doubt ? "no response yet, in doubt" : "no response yet";
  if (row.outcome === "silent") return "acks=0, no response due";
  return (shown(row.told) || "ok") + (row.outcome === "unheard" ? ", and the client got nothing" : "");
}
function exchangeRow(row, chosen) {
  const took = row.end !== null && row.end !== undefined ? `${num(row.end - row.at)} ms` : "";
  return pick(`exchanges/${row.n}`, `x${row.n}`, [
    cell(`#${row.n}`, "num mono"), cell(`+${num(row.at - began())}`, "num mono"), cell(`${row.api} v${row.v}`), cell(`${cut(clientOf(row), 28)} → ${row.node}`), cell(cut(shown(row.asked), 220), "wide"),
    cell([h("span", { class: `told-${row.doubt ? "lost" : row.outcome}` }, cut(told(row), 160)), row.again !== undefined && h("span", { class: "again" }, ` again #${row.again}`), row.throttle ? h("span", { class: "fault" }, ` throttled ${row.throttle} ms`) : null, row.faults.length ? h("span", { class: "fault" }, ` ⚡ ${cut(shown(row.faults.join("; ")), 80)}`) : null], "wide"),
    cell(took, "num mono soft")], chosen ? "chosen" : "");
}
const exchangeTable = (list, chosen, changes) => list.length ? table(["##", "#ms", "request", "client → broker", "asks", "response", "#took"], list.map((row) => row.change ? h("tr", { class: "change" }, cell(""), cell(`+${num(row.at - began())}`, "num mono"), h("td", { colspan: 5, class: "wide" }, changeText(row.change))) : exchangeRow(row, row.n === chosen)), { class: "stack" }) : empty("No exchange.");
const Exchanges = {
  limit: 200, text: "", api: "", client: "", problems: false, quiet: false,
  mount(root) {
    const change = (name, read) => (event) => { this[name] = read(event.target); this.limit = 200; refresh(); };
    this.apis = h("select", { "aria-label": "API", onchange: change("api", (it) => it.value) });
    this.clients = h("select", { "aria-label": "Client", onchange: change("client", (it) => it.value) });
    this.list = h("div");
    this.side = h("div", { class: "side" });
    this.split = h("div", { class: "split" }, this.list, this.side);
    root.append(h("div", { class: "bars" },
      h("input", { type: "search", id: "filter", placeholder: "filter: topic, pid 4000, offset, code", "aria-label": "Filter", value: this.text, oninput: change("text", (it) => it.value) }), this.apis, this.clients,
      h("label", null, h("input", { type: "checkbox", checked: this.problems, onchange: change("problems", (it) => it.checked) }), "only problems"),
      h("label", null, h("input", { type: "checkbox", checked: this.quiet, onchange: change("quiet", (it) => it.checked) }), "heartbeats and empty fetches")), this.split);
  },
  options(select, first, values, chosen) {
    const all = [["", first], ...values.map((each) => [each, cut(shown(each), 50)])], key = JSON.stringify(all);
    if (select.dataset.all !== key) { select.dataset.all = key; put(select, all.map(([value, text]) => h("option", { value }, text))); }
    select.value = chosen;
  },
  update(args) {
    const all = rows(), chosen = args[0] ? Number(args[0]) : null, words = this.text.toLowerCase();
    this.options(this.apis, "every API", [...new Set(all.map((row) => row.api))].sort(), this.api);
    this.options(this.clients, "every client", [...new Set(all.map((row) => row.client || ""))].filter(Boolean).sort(), this.client);
    const text = (row) => `#${row.n} ${row.api} ${row.client} ${row.asked} ${row.told} ${row.txn} ${row.groups} ${row.faults} ${row.outcome}`.toLowerCase();
    const list = all.filter((row) => (this.quiet || !row.quiet || row.n === chosen) && (!this.api || row.api === this.api) && (!this.client || row.client === this.client) && (!this.problems || hasProblem(row)) && (!words || text(row).includes(words)));
    const from = list.length ? list[0].at : 0;
    const changes = this.text || this.api || this.client || this.problems ? [] : grouped(S.snapshot.changes.filter((each) => each.at >= from)).map((change) => ({ change, at: change.at, n: change.after_n + .5 }));
    const merged = [...list, ...changes].sort((a, b) => b.at - a.at || b.n - a.n), shownRows = merged.slice(0, this.limit);
    const row = chosen === null ? null : S.rows.get(chosen);
    this.split.classList.toggle("two", chosen !== null);
    put(this.list, panel("Exchanges", `${counted(list.length, "exchange")} of ${num(all.length)} kept, newest first`, exchangeTable(shownRows, chosen), merged.length > this.limit && h("p", null, h("button", { onclick: () => { this.limit += 400; refresh(); } }, `show ${Math.min(400, merged.length - this.limit)} more`))));
    if (chosen === null) { put(this.side); this.seen = null; return; }
    if (this.seen !== chosen) { this.seen = chosen; const it = this.list.querySelector(".chosen"); if (it && innerWidth > 900) this.list.scrollTop = it.offsetTop - this.list.clientHeight / 2; this.side.scrollTop = 0; }
    const story = row ? storyOf(row) : [], key = JSON.stringify([chosen, innerWidth, S.snapshot.changes.length, story.map((each) => [each.n, each.outcome, each.end])]);
    if (key === this.drawn && this.side.firstChild) return; // what is open and scrolled stays so while other things happen
    this.drawn = key;
    put(this.side, row ? exchangeDetail(row, story) : panel(`Exchange ${chosen}`, null, empty("The journal does not have it any more. It keeps the newest exchanges.")));
  },
};
// Those that belong to the same story: the same batch, transaction, identity or group, the nearest ones.
function storyOf(row) {
  const pids = new Set(row.batches.map((each) => each.pid).concat(row.identity ? [row.identity[0]] : []).filter((pid) => pid !== undefined && pid >= 0));
  if (row.api === "INIT_PRODUCER_ID" && row.response && row.response.producer_id >= 0) pids.add(row.response.producer_id);
  const ids = new Set([...row.txn, ...row.groups.map((each) => "g:" + each)]);
  const belongs = (other) => other.n === row.n || other.again === row.n || row.again === other.n || (row.again !== undefined && other.again === row.again) ||
    other.batches.some((each) => pids.has(each.pid)) || (other.identity && pids.has(other.identity[0])) || other.txn.some((each) => ids.has(each)) || other.groups.some((each) => ids.has("g:" + each) && !other.quiet) ||
    (other.api === "INIT_PRODUCER_ID" && other.response && pids.has(other.response.producer_id)) || (other.client === row.client && other.codes.length > 0 && Math.abs(other.n - row.n) < 40);
  let list = rows().filter((other) => belongs(other) && (!other.quiet || other.n === row.n));
  if (list.length < 4) list = rows().filter((other) => list.includes(other) || (!other.quiet && other.client === row.client && Math.abs(other.n - row.n) <= 6));
  const at = list.findIndex((other) => other.n === row.n), start = Math.max(0, Math.min(at - 7, list.length - 16));
  return list.slice(start, start + 16);
}
// Within a millisecond a change comes after the requests that the broker had then.
const placeIn = (item) => item.row ? item.row.n : item.change.after_n + .5;
function sequence(story, chosen, room) {
  const clients = [...new Set(story.map(clientOf))], nodes = [...new Set(story.map((row) => row.node))].sort((a, b) => a - b);
  const begin = story[0].at, end = Math.max(...story.map((row) => row.end || row.at));
  const changes = grouped(S.snapshot.changes.filter((each) => each.at >= begin - 1500 && each.at <= end + 500 && (each.node !== undefined || story.some((row) => row.topics.includes(each.topic))))).slice(-12);
  const heads = [...clients, ...nodes.map((node) => `broker ${node}`)], two = heads.length === 2;
  const left = 52, needed = left + 140 + 150 * (heads.length - 1), width = Math.max(two ? 0 : 560, needed, room || 0), step = Math.min(two ? 600 : 360, (width - left - 140) / Math.max(1, heads.length - 1));
  const at = (place) => left + 70 + step * place, client = (row) => at(clients.indexOf(clientOf(row))), broker = (row) => at(clients.length + nodes.indexOf(row.node));
  const items = [...story.map((row) => ({ at: row.at, row })), ...changes.map((change) => ({ at: change.at, change }))].sort((a, b) => a.at - b.at || placeIn(a) - placeIn(b));
  const parts = [];
  let y = 46;
  for (const { row, change } of items) {
    if (change) {
      const when = `+${num(change.at - began())}`, x = left + 4, room = width - x - 6;
      const text = changeText(change, (topic) => fit(shown(topic), room - widthOf(changeText(change, () => ""))));
      parts.push(s("text", { x: 4, y: y + 2 }, when));
      if (widthOf(when) > left - 4) y += 13;
      parts.push(s("line", { class: "s-line", x1: left, x2: width - 4, y1: y + 6, y2: y + 6 }), s("text", { x, y: y + 2, class: "s-t-fault" }, fit(text, room), s("title", null, changeText(change))));
      y += 22;
      continue;
    }
    const from = client(row), to = broker(row), way = to > from ? 1 : -1, x = Math.min(from, to) + 7, room = width - x - 6;
    const lost = ["lost", "open", "unheard"].includes(row.outcome), kind = row.doubt || lost ? "doubt" : row.outcome === "refused" ? "refused" : "ok";
    const full = `#${row.n} ${row.api} v${row.v}: ${shown(row.asked)} — ${told(row)}`;
    const more = [row.again !== undefined && `again #${row.again}`, row.throttle && `throttled ${row.throttle} ms`, row.faults.length && `⚡ ${shown(row.faults.join("; "))}`].filter(Boolean).join(" · ");
    const responds = row.outcome !== "silent", stop = lost ? (from + to) / 2 : from, answer = told(row) + (more ? ` · ${more}` : "");
    const deep = responds ? 52 : 34;
    parts.push(s("g", { ...opens(`exchanges/${row.n}`, `s${row.n}`), "aria-label": full },
      s("rect", { x: 0, y: y - 15, width, height: deep - 4, rx: 3, fill: row.n === chosen ? "var(--hover)" : "transparent" }),
      s("text", { x: 4, y: y - 2 }, `#${row.n}`), s("text", { x: 4, y: y + 11 }, `+${num(row.at - began())}`),
      s("line", { class: kind === "doubt" ? "s-doubt" : "s-req", x1: from, x2: to - 6 * way, y1: y + 4, y2: y + 4, "stroke-width": 1.3, "marker-end": "url(#tip)" }),
      responds && s("line", { class: kind === "doubt" ? "s-doubt" : `s-${kind}`, x1: to, x2: stop + (lost ? 0 : 6 * way), y1: y + 25, y2: y + 25, "stroke-width": 1.3, "marker-end": lost ? null : `url(#tip-${kind})` }),
      lost && responds && s("text", { x: stop, y: y + 29, "text-anchor": "middle", class: "x-bad" }, "✕"),
      s("text", { x, y: y - 2, class: "ink" }, s("tspan", { "font-weight": 700 }, row.api), fit(` v${row.v} ${shown(row.asked)}`, room - widthOf(row.api) - 2)),
      s("text", { x, y: y + 19, class: `s-t-${kind}` }, fit(answer, room)),
      s("title", null, full + (more ? ` — ${more}` : ""))));
    y += deep;
  }
  const tip = (id, kind) => s("marker", { id, markerWidth: 7, markerHeight: 7, refX: 5, refY: 3, orient: "auto" }, s("path", { d: "M0,0 L6,3 L0,6", fill: "none", class: kind, "stroke-dasharray": "none" }));
  return h("div", { class: "wrap" }, s("svg", { width, height: y + 4, role: "group", "aria-label": "Sequence diagram" },
    s("defs", null, tip("tip", "s-req"), tip("tip-ok", "s-ok"), tip("tip-refused", "s-refused"), tip("tip-doubt", "s-doubt")),
    heads.map((_, place) => s("line", { class: "s-line", x1: at(place), x2: at(place), y1: 24, y2: y })), parts,
    heads.map((text, place) => s("g", null, s("rect", { class: "s-head", x: at(place) - 68, y: 3, width: 136, height: 20, rx: 3 }), s("text", { x: at(place), y: 17, "text-anchor": "middle", class: "ink" }, fit(text, 128), s("title", null, text))))));
}
function exchangeDetail(row, story) {
  const facts = (list) => h("dl", { class: "facts" }, list.filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
  return [
    panel([`Exchange ${row.n} `, pill(row.doubt ? "doubt" : row.outcome === "ok" ? "ok" : row.outcome === "refused" ? "bad" : "warning", row.doubt ? "in doubt" : row.outcome), " ", h("a", { href: "#exchanges", class: "soft", "aria-label": "Close" }, "close (Esc)")], null,
      facts([["request", `${row.api} v${row.v}, correlation ${row.corr}`], ["from", `${clientOf(row)}, connection ${row.conn}, to broker ${row.node}`], ["at", `${time(row.at)}${row.end !== null ? `, took ${num(row.end - row.at)} ms` : ""}`], row.acks !== undefined && ["acks", row.acks === -1 ? "all" : String(row.acks)],
        row.txn.length && ["transactional id", row.txn.map(shown).join(", ")], row.identity && ["identity", `pid ${row.identity[0]} epoch ${row.identity[1]}`], row.groups.length && ["group", row.groups.map(shown).join(", ")],
        row.again !== undefined && ["came again", exchangeLink(row.again, `the same batch as #${row.again}`)], row.throttle && ["throttled", `${num(row.throttle)} ms`], row.faults.length && ["fault rules", shown(row.faults.join("; "))], row.codes.length && ["codes", row.codes.join(", ")]]),
      row.batches.length ? table(["partition", "#records", "pid", "epoch", "sequence", "#bytes", "result"], row.batches.map((each) => h("tr", null, cell(partitionLink(each.topic, each.partition)), cell(num(each.count), "num"), cell(each.pid === undefined || each.pid < 0 ? "–" : each.pid), cell(each.epoch === undefined || each.epoch < 0 ? "–" : each.epoch), cell(each.seq === undefined || each.seq < 0 ? "–" : `${each.seq}–${each.last}`), cell(num(each.bytes), "num"),
        cell(each.code ? [h("span", { class: "told-refused" }, each.code), each.why && ` ${shown(each.why)}`, (each.records || []).map(([at, why]) => ` · record ${at}: ${shown(why || "")}`)] : each.offset !== undefined ? [link(`${lane(each.topic, each.partition)}/${each.offset}`, `offset ${num(each.offset)}`), each.again !== undefined && h("span", { class: "again" }, `, again #${each.again}: it is in the log once`)] : told(row), "wide")))) : null,
      row.batches.length || !row.topics.length ? null : h("p", null, row.topics.slice(0, 8).map((topic) => [link(`#topics/${enc(topic)}`, shown(topic)), " "]))),
    panel("Sequence", `${counted(story.length, "exchange")} of the same batch, identity, transaction or group; dashed is in doubt`, sequence(story, row.n, $("view").clientWidth > 900 ? $("view").clientWidth * 6 / 11 - 60 : $("view").clientWidth - 44)),
    panel("Messages", "without empty fields", h("details", { open: true }, h("summary", null, "request"), h("pre", null, shown2(row.request))), h("details", { open: row.response !== null }, h("summary", null, "response"), h("pre", null, row.response === null ? told(row) : shown2(row.response)))),
  ];
}
const shown2 = (value) => JSON.stringify(value, null, 1).split("\n").map(shown).join("\n");
