// What the page knows: one snapshot, the rows of the exchanges by number, findings and fault rules; and how it learns more.
const S = { snapshot: null, rows: new Map(), findings: [], faults: [], live: false, connected: false, held: false, skew: 0, shared: null };
function merge(moment) {
  if (moment.full) S.rows.clear();
  if (moment.snapshot) {
    if (moment.snapshot.topic_names) { // news have only the topics that changed
      const known = new Map([...(S.snapshot ? S.snapshot.topics : []), ...moment.snapshot.topics].map((topic) => [topic.name, topic]));
      moment.snapshot.topics = moment.snapshot.topic_names.map((name) => known.get(name)).filter(Boolean);
    }
    S.snapshot = moment.snapshot;
    S.skew = Date.now() - moment.snapshot.now_ms;
  }
  for (const row of moment.exchanges || []) S.rows.set(row.n, row);
  for (const n of S.rows.keys()) { if (n >= (moment.oldest || 0)) break; S.rows.delete(n); }
  if (moment.findings) S.findings = moment.findings;
  if (moment.faults) S.faults = moment.faults;
}
// The cluster's time. A moment stands still, and so does a virtual clock.
const now = () => S.live && S.snapshot.clock === "real" ? Date.now() - S.skew : S.snapshot.now_ms;
const rows = () => [...S.rows.values()].sort((a, b) => a.n - b.n);
const began = () => { const first = S.rows.values().next(); return first.done ? 0 : first.value.at; };
let source = null;
function listen() {
  source = new EventSource("events");
  source.onopen = () => { S.connected = true; tools(); };
  source.onerror = () => { S.connected = false; tools(); };
  source.onmessage = (message) => {
    merge(JSON.parse(message.data));
    refresh();
  };
}
async function ask(method, path, body) {
  const answer = await fetch(path, { method, headers: body === undefined ? {} : { "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error || answer.statusText);
  return told;
}
// Asks, and says in a line that it is done, or why not.
async function order(done, ...asked) { try { await ask(...asked); if (done) toast(done); } catch (error) { toast(error.message); } }
const clientOf = (row) => row.client ? shown(row.client) : `connection ${row.conn}`;
const isOpen = (state) => /^(Ongoing|Prepare)/.test(state || "");
const partitions = () => S.snapshot.topics.flatMap((topic) => topic.partitions.map((part) => ({ topic, part })));
const partitionOf = (topic, index) => partitions().find((each) => each.topic.name === topic && each.part.index === index);
// What the exchanges wrote to a partition: each batch with its exchange.
function* writes(topic, index) { for (const row of S.rows.values()) for (const each of row.batches) if (each.topic === topic && each.partition === index) yield [row, each]; }
function writer(topic, index, is) { for (const [row, each] of writes(topic, index)) if (is(each)) return row; return null; }
// The exchange that wrote a batch: the first with its identity that may have, by pid, epoch and sequence; or the one that was told its offset.
const writerOf = (topic, index, pid, epoch, seq) => pid < 0 ? null : writer(topic, index, (each) => each.pid === pid && each.epoch === epoch && each.seq === seq);
const writerAt = (topic, index, offset) => writer(topic, index, (each) => each.offset === offset);
const hasProblem = (row) => row.doubt || row.again !== undefined || row.faults.length > 0 || row.throttle > 0 || ["lost", "unheard", "refused"].includes(row.outcome);
// The same change of a topic's partitions at the same moment is one line: a broker that stops changes many at once.
function grouped(changes) {
  const found = new Map();
  for (const change of changes) {
    const key = change.node !== undefined ? change : [change.after_n, change.topic, change.what, inOrder(change.before), inOrder(change.after)].join("|"), known = found.get(key);
    if (known && !known.those.has(change.partition)) known.those.add(change.partition);
    else found.set(known ? change : key, { ...change, those: new Set([change.partition]) });
  }
  return [...found.values()];
}
const inOrder = (nodes) => [...nodes].sort((a, b) => a - b).join(",");
function changeText(change, named = shown) {
  if (change.node !== undefined) return `broker ${change.node} ${{ started: "started", stopped: "stopped", killed: "was killed", paused: "is paused", resumed: "goes on", fenced: "is fenced by the controller", unfenced: "is no longer fenced" }[change.what]}`;
  const many = change.those && change.those.size > 1 ? change.those.size : 0;
  const where = many ? `${named(change.topic)}, ${counted(many, "partition")}` : `${named(change.topic)}-${change.partition}`;
  const leader = (nodes) => nodes[0] < 0 ? "no leader" : `broker ${nodes[0]}`;
  return change.what === "leader" ? `${where}: leader ${leader(change.before)} → ${leader(change.after)}${many ? "" : `, epoch ${change.epoch}`}` : `${where}: ISR ${inOrder(change.before) || "none"} → ${inOrder(change.after) || "none"}`;
}
