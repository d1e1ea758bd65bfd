// A topic's partitions as lanes along their offsets: batches, transactions as bars, LSO and high watermark as lines, duplicates and fences.
const LANE = { top: 16, batch: 20, bar: 7, gap: 3, label: 14 };
function laneOf(topic, part, width) {
  const first = part.batches.length ? part.batches[0][0] : part.start;
  const from = Math.min(first, ...part.bars.filter((bar) => bar.state === "open").map((bar) => Math.max(bar.first, first))), to = Math.max(part.end, from + 1);
  const right = 34, x = (offset) => 2 + (Math.max(offset, from) - from) / (to - from) * (width - right - 4);
  const stateOf = (batch) => { const bar = part.bars.find((each) => each.pid === batch[3] && each.first <= batch[0] && batch[1] <= each.last); return bar ? bar.state : "open"; };
  const marks = marksOf(topic.name, part.index);
  const levels = [], bars = [];
  for (const bar of part.bars) {
    const begin = x(bar.first), end = Math.max(x(bar.last + 1), begin + 4);
    let level = levels.findIndex((used) => used <= begin + .5);
    if (level < 0) level = levels.push(0) - 1;
    levels[level] = end;
    bars.push({ bar, begin, end, level });
  }
  const floor = LANE.top + LANE.batch + 4 + Math.max(1, levels.length) * (LANE.bar + LANE.gap), height = floor + LANE.label + 2;
  let labelled = -99; // where the newest ×2 is: one that has no room beside it is a dot
  const twice = (at, numbers) => {
    const room = at - labelled >= 24;
    if (room) labelled = at;
    return s("text", { x: at, y: LANE.top - 4, class: "x-dup", "text-anchor": "middle" }, room ? "×" + (numbers.length + 1) : "·", s("title", null, `sent again in ${numbers.map((n) => "#" + n).join(", ")}, in the log once`));
  };
  const batches = part.batches.map((batch) => {
    const [base, last, count, pid, epoch, seq, flags, at, leaderEpoch, bytes] = batch, begin = x(base), wide = Math.max(1.5, x(last + 1) - begin - (x(last + 1) - begin > 5 ? 1 : 0));
    const place = () => { const row = writerOf(topic.name, part.index, pid, epoch, seq) || writerAt(topic.name, part.index, base); return row ? `exchanges/${row.n}` : `topics/${enc(topic.name)}/${part.index}/${base}`; };
    const hit = opens(place, `b${topic.name}/${part.index}/${base}`);
    if (flags & 2) {
      const state = flags & 4 ? "committed" : flags & 8 ? "aborted" : "plain", middle = begin + wide / 2;
      const text = `${state === "committed" ? "commit" : state === "aborted" ? "abort" : "control"} marker at offset ${base}, pid ${pid} epoch ${epoch}`;
      return s("g", { ...hit, "aria-label": text }, s("rect", { x: middle - 4, y: LANE.top, width: 8, height: LANE.batch, fill: "transparent" }), s("line", { class: `m-${state}`, x1: middle, x2: middle, y1: LANE.top - 2, y2: LANE.top + LANE.batch + 2, "stroke-width": 2 }), s("title", null, text));
    }
    const state = flags & 1 ? stateOf(batch) : "plain";
    const text = `offsets ${base}–${last}, ${counted(count, "record")}, ${pid < 0 ? "no producer id" : `pid ${pid} epoch ${epoch} seq ${seq}`}, ${flags & 1 ? state : "no transaction"}, leader epoch ${leaderEpoch}, ${num(bytes)} bytes, ${time(at)}`;
    return [s("rect", { ...hit, class: `hit b-${state}`, x: begin, y: LANE.top, width: wide, height: LANE.batch, rx: 1, "aria-label": text }, s("title", null, text)),
      wide > 30 && s("text", { x: begin + wide / 2, y: LANE.top + 14, "text-anchor": "middle", class: "ink", "pointer-events": "none" }, wide > 90 && pid >= 0 ? cut(`${count} · pid ${pid}`, Math.floor(wide / 6.6)) : cut(count, Math.floor(wide / 6.6))),
      marks.again.has(base) && twice(begin + Math.min(wide / 2, 12), marks.again.get(base))];
  });
  const line = (offset, kind, text, side, y) => s("g", null, s("line", { class: `l-${kind}`, x1: x(offset), x2: x(offset), y1: 6, y2: floor, "stroke-width": 1.5 }), s("text", { class: `x-${kind}`, x: Math.max(0, Math.min(x(offset) + (side < 0 ? -3 : 3), width)), y, "text-anchor": side < 0 ? "end" : "start" }, text));
  const together = Math.abs(x(part.lso) - x(part.hw)) < 1;
  const hwSide = x(part.hw) > width / 2 ? -1 : 1, lsoSide = x(part.lso) > 90 ? -1 : 1;
  return s("svg", { width, height, role: "group", "aria-label": `${topic.name}-${part.index}, offsets ${from} to ${part.end}` },
    s("line", { class: "l-end", x1: 2, x2: width - right, y1: LANE.top + LANE.batch + 1.5, y2: LANE.top + LANE.batch + 1.5 }), batches,
    bars.map(({ bar, begin, end, level }) => s("rect", { class: `t-${bar.state}`, x: begin, y: LANE.top + LANE.batch + 5 + level * (LANE.bar + LANE.gap), width: end - begin - (bar.state === "open" ? 0 : 1), height: LANE.bar, rx: 2, opacity: bar.state === "open" ? 1 : .75 },
      s("title", null, `transaction of pid ${bar.pid} epoch ${bar.epoch}, ${bar.state}, offsets ${bar.first}–${bar.last}, ${counted(bar.records, "record")}`))),
    together ? line(part.hw, "hw", `LSO = HW ${num(part.hw)}`, hwSide, floor + 10) : [line(part.lso, "lso", `LSO ${num(part.lso)}`, lsoSide, floor + 10), line(part.hw, "hw", `HW ${num(part.hw)}`, hwSide, x(part.hw) - x(part.lso) < 170 && lsoSide > 0 || hwSide < 0 && x(part.hw) - x(part.lso) < 80 ? 9 : floor + 10)],
    together && x(part.hw) < 120 ? null : s("text", { x: 2, y: lsoSide > 0 && !together ? 9 : floor + 10 }, num(from)),
    marks.fenced.length ? s("text", { ...opens(`exchanges/${marks.fenced[0]}`), x: width - right + 6, y: LANE.top + 14, class: "x-bad hit" }, `✕ ${marks.fenced.length}`, s("title", null, `fenced or refused writes: ${marks.fenced.map((n) => "#" + n).join(", ")}`)) : null);
}
// What the exchanges say about a partition: batches that came again by offset, and writes that were refused.
function marksOf(topic, index) {
  const again = new Map(), fenced = [];
  for (const [row, each] of writes(topic, index)) {
    if (each.again !== undefined && each.offset !== undefined && !(S.rows.has(each.again) && S.rows.get(each.again).outcome === "refused")) again.set(each.offset, [...(again.get(each.offset) || []), row.n]);
    if (each.code) fenced.push(row.n);
  }
  return { again, fenced };
}
const legend = () => h("p", { class: "legend" },
  [["b-plain", "no transaction"], ["b-committed", "committed"], ["b-open", "open"], ["b-aborted", "aborted"]].map(([kind, text]) => h("span", null, s("svg", { width: 16, height: 10 }, s("rect", { class: kind, x: 1, y: 1, width: 14, height: 8 })), text)),
  [["l-lso", "LSO"], ["l-hw", "high watermark (HW)"]].map(([kind, text]) => h("span", null, s("svg", { width: 16, height: 10 }, s("line", { class: kind, x1: 0, x2: 16, y1: 5, y2: 5, "stroke-width": 2 })), text)),
  h("span", null, "×2 or ·: the batch came twice"), h("span", null, "✕ 1: a write was refused"));
const Topics = {
  mount(root) {
    this.names = "";
    this.body = h("div");
    this.choice = h("select", { "aria-label": "Topic", onchange: (event) => { location.hash = `topics/${enc(event.target.value)}`; } });
    root.append(h("div", { class: "bars" }, this.choice, legend()), s("svg", { width: 0, height: 0, style: "position:absolute" }, s("defs", null, s("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 5, height: 5, fill: "var(--aborted-bg)" }), s("line", { x1: 0, x2: 0, y1: 0, y2: 5, stroke: "var(--aborted)", "stroke-width": 2 })))), this.body);
  },
  records(topic, part, offset) {
    if (!S.live || S.snapshot.kind !== "stub") return null;
    const key = `${topic.name}/${part.index}/${offset}`;
    if (this.recordsKey !== key) { this.recordsKey = key; this.recordsNode = recordsPanel(topic, part, offset); }
    return this.recordsNode;
  },
  // Before a topic is chosen: the one that the worst finding is about, or the first one with records.
  first(topics) {
    const ours = topics.filter((each) => !each.internal), named = S.findings.map((each) => each.topic);
    return ours.find((each) => each.name === named.find((name) => ours.some((topic) => topic.name === name))) || ours.find((each) => each.partitions.some((part) => part.end > part.start)) || ours[0] || topics[0];
  },
  update(args) {
    const topics = S.snapshot.topics;
    const chosen = topics.find((each) => each.name === args[0]) || this.first(topics);
    if (!chosen) { put(this.body, panel(null, null, empty("There is no topic yet."))); return; }
    const names = topics.map((each) => each.name).join("\n");
    if (this.names !== names) { this.names = names; put(this.choice, topics.map((each) => h("option", { value: each.name }, cut(shown(each.name), 80)))); }
    this.choice.value = chosen.name;
    const index = args[1] === undefined ? null : Number(args[1]);
    const width = Math.max(280, (this.body.clientWidth || 900) - (innerWidth > 900 ? 230 : 28));
    const shownParts = chosen.partitions.filter((part) => index === null || part.index === index).slice(0, 64);
    put(this.body,
      panel(cut(shown(chosen.name), 120), [counted(chosen.partitions_total, "partition"), chosen.internal ? ", of Kafka itself, without lanes" : "", Object.entries(chosen.overrides || {}).slice(0, 8).map(([name, value]) => `, ${name}=${cut(shown(value), 40)}`), index !== null && [" · ", link(`#topics/${enc(chosen.name)}`, "all partitions")]],
        shownParts.map((part) => h("div", { class: "lane" }, h("div", null, h("b", null, link(lane(chosen.name, part.index), `partition ${part.index}`)),
          h("dl", null, h("dt", null, "leader"), h("dd", null, part.leader < 0 ? pill("bad", "none") : `${part.leader} in epoch ${part.leader_epoch}`), h("dt", null, "ISR"), h("dd", null, `${part.isr.join(",") || "none"} of ${part.replicas.join(",")}`, part.isr.length < part.min_isr && [" ", pill("bad", `min ${part.min_isr}`)]),
            h("dt", null, "offsets"), h("dd", null, `${num(part.start)}–${num(part.end)}`), part.held && [h("dt", null, "held by"), h("dd", null, part.held.txn ? shown(part.held.txn) : `pid ${part.held.pid}`, `, ${ago(now() - part.held.since_ms)}`)])),
          h("div", { class: "wrap" }, part.end > 0 && !chosen.internal ? laneOf(chosen, part, width) : empty(chosen.internal ? `${num(part.end)} records of Kafka itself` : "No records yet.")))),
        chosen.partitions.length > shownParts.length && index === null && empty(`${chosen.partitions.length - shownParts.length} more partitions`)),
      index !== null && shownParts.length ? [this.records(chosen, shownParts[0], args[2]), partitionDetail(chosen, shownParts[0])] : null);
  },
};
// Records are read on demand and stay as they are until another place is asked for.
function recordsPanel(topic, part, offset) {
  const records = h("div");
  const show = async (at) => {
    try {
      const told = await ask("GET", `records?topic=${enc(topic.name)}&partition=${part.index}&offset=${at}`);
      put(records, told.records.length ? table(["#offset", "time", "key", "value", "headers"], told.records.map((each) => h("tr", null, cell(num(each.offset), "num"), cell(time(each.timestamp), "mono"), cell(each.key === null ? "–" : shown(each.key), "mono"), cell(each.value === null ? "null" : shown(each.value), "wide mono"), cell(each.headers.map(([name, value]) => `${shown(name)}=${shown(value)}`).join(", "), "wide mono")))) : empty("No record there."));
    } catch (error) { put(records, empty(error.message)); }
  };
  const at = h("input", { type: "number", min: 0, value: offset === undefined ? Math.max(part.start, part.end - 20) : offset, "aria-label": "Offset" });
  if (S.live && offset !== undefined) show(offset);
  return panel("Records", "a share file has none", h("div", { class: "bars" }, "from offset", at, h("button", { onclick: () => show(at.value) }, "Show")), records);
}
function partitionDetail(topic, part) {
  const related = [...new Set([...writes(topic.name, part.index)].map(([row]) => row))].filter((row) => !row.quiet).sort((a, b) => b.n - a.n).slice(0, 60);
  return [
    panel("Replicas", "", table(["broker", "#end of its log", "#behind", ""], part.ends.map(([node, end]) => h("tr", null, cell(node), cell(num(end), "num"), cell(num(Math.max(0, part.end - end)), "num"), cell([node === part.leader && pill("ok", "leader"), " ", part.isr.includes(node) ? pill("", "in sync") : pill("warning", "not in sync")]))))),
    panel("Writes", "exchanges with a batch for this partition, newest first", exchangeTable(related)),
  ];
}
