// Producers with what each log remembers of them, transactions, groups, and fault rules.
const Producers = {
  update() {
    const list = partitions().flatMap(({ topic, part }) => topic.internal ? [] : part.producers.map((each) => ({ topic, part, each })));
    list.sort((a, b) => (a.each.since === null) - (b.each.since === null) || b.each.last_ms - a.each.last_ms);
    put(this.root, panel("Producers", "what the log of each partition remembers: the identity, and the five newest batches, by which a batch that comes again is recognized",
      list.length ? table(["pid", "epoch", "transactional id", "partition", "open since", "last batch", "five newest batches: sequence → offset"], list.slice(0, 300).map(({ topic, part, each }) => h("tr", null,
        cell(each.pid), cell(each.epoch), cell(each.txn === null ? h("span", { class: "soft" }, "–") : link(`#transactions/${enc(each.txn)}`, cut(shown(each.txn), 40))), cell(partitionLink(topic.name, part.index)),
        cell(each.since === null ? h("span", { class: "soft" }, "–") : pill("open", `offset ${num(each.since)}`)), cell(time(each.last_ms), "mono"), cell(remembered(topic, part, each))))) : empty("No producer with an id has written."),
      list.length > 300 && empty(`${list.length - 300} more`)));
  },
};
function remembered(topic, part, producer) {
  const chips = producer.batches.map(([first, last, from]) => {
    const row = writerOf(topic.name, part.index, producer.pid, producer.epoch, first), again = row && (marksOf(topic.name, part.index).again.get(from) || []).length;
    return h(row ? "a" : "span", { class: "chip", href: row ? `#exchanges/${row.n}` : null, title: row ? `exchange ${row.n}` : "the journal has no exchange for it" }, `${first}–${last} → ${num(from)}`, again ? ` ×${again + 1}` : "");
  });
  if (!chips.length && producer.last_sequence >= 0) return h("span", { class: "soft" }, `newest sequence ${producer.last_sequence}; a broker tells no more`);
  while (chips.length < 5) chips.push(h("span", { class: "chip none" }, "·"));
  return h("span", { class: "chips" }, chips);
}
const txnKind = (state) => /Commit$/.test(state) ? "committed" : /Abort$|Fence$/.test(state) ? "aborted" : state === "Ongoing" ? "open" : "";
const Transactions = {
  update(args) {
    const txns = S.snapshot.transactions, chosen = args[0] || (txns[0] && txns[0].id);
    const hanging = partitions().filter(({ part }) => part.held && !isOpen(part.held.state));
    const story = rows().filter((row) => row.txn.includes(chosen) || txns.some((txn) => txn.id === chosen && ((row.identity && row.identity[0] === txn.pid) || row.batches.some((each) => each.pid === txn.pid))));
    put(this.root,
      hanging.length ? panel("Hanging", "open in a log, and no coordinator has them open", table(["partition", "producer", "#from offset", "since"], hanging.map(({ topic, part }) => pick(lane(topic.name, part.index), `h${topic.name}${part.index}`, [cell(`${shown(topic.name)}-${part.index}`), cell(`pid ${part.held.pid} epoch ${part.held.epoch}`), cell(num(part.held.offset), "num"), cell(ago(now() - part.held.since_ms))])))) : null,
      panel("Transactional ids", "open ones first", txns.length ? table(["id", "state", "pid", "epoch", "open for, of its timeout", "partitions", "coordinator", "changed"], txns.map((txn) => {
        const open = isOpen(txn.state), took = open ? now() - txn.start_ms : 0, part = Math.min(1, took / txn.timeout_ms);
        return pick(`transactions/${enc(txn.id)}`, `i${txn.id}`, [cell(cut(shown(txn.id), 60), "wide"), cell([pill(txnKind(txn.state), txn.state), txn.pending && h("span", { class: "soft" }, ` → ${txn.pending}`)]), cell(txn.pid), cell(txn.epoch),
          cell(open ? [h("span", { class: `meter ${part > .8 ? "full" : ""}` }, h("i", { style: `width:${Math.round(part * 100)}%` })), `${ago(took)} of ${ago(txn.timeout_ms)}`] : h("span", { class: "soft" }, `timeout ${ago(txn.timeout_ms)}`)),
          cell(txn.partitions.length ? txn.partitions.slice(0, 6).map(([topic, index]) => `${cut(shown(topic), 40)}-${index}`).join(", ") + (txn.partitions.length > 6 ? ` and ${txn.partitions.length - 6} more` : "") : "–", "wide"), cell(`broker ${txn.node}`), cell(time(txn.updated_ms), "mono")], txn.id === chosen ? "chosen" : "");
      })) : empty("No transactional id is in use.")),
      chosen !== undefined && panel(`Exchanges of ${cut(shown(chosen), 60)}`, "oldest first", story.length ? [sequence(story.slice(-22), null, this.root.clientWidth - 28)] : empty("The journal has none.")));
  },
};
const Groups = {
  update(args) {
    const groups = S.snapshot.groups, chosen = groups.find((each) => each.id === args[0]) || groups[0];
    const story = chosen ? rows().filter((row) => row.groups.includes(chosen.id) && (!row.quiet || row.codes.length)).slice(-22) : [];
    put(this.root, panel("Groups", "", groups.length ? table(["group", "protocol", "state", "#generation", "#members", "#lag", "coordinator"], groups.map((group) => pick(`groups/${enc(group.id)}`, `g${group.id}`, [cell(cut(shown(group.id), 60), "wide"), cell(group.type), cell(pill(group.state === "Stable" ? "ok" : /Rebalanc|Assign|Reconcil/.test(group.state) ? "warning" : "", group.state)), cell(num(group.generation), "num"), cell(num(group.members.length), "num"), cell(num(group.offsets.reduce((sum, each) => sum + lag(each), 0)), "num"), cell(`broker ${group.node}`)], group === chosen ? "chosen" : ""))) : empty("No group.")),
      chosen && h("div", { class: "cols" }, panel(`Members of ${cut(shown(chosen.id), 40)}`, "", chosen.members.length ? table(["member", "client", "partitions"], chosen.members.map((each) => h("tr", null, cell(cut(shown(each.id), 44), "mono"), cell(shown(each.client || "")), cell(each.partitions.map(([topic, index]) => `${shown(topic)}-${index}`).join(", ") || "none", "wide")))) : empty("None.")),
        panel("Committed offsets", "", chosen.offsets.length ? table(["partition", "#offset", "#end", "#lag", ""], chosen.offsets.map((each) => { const place = partitionOf(each.topic, each.partition); return h("tr", null, cell(partitionLink(each.topic, each.partition)), cell(num(each.offset), "num"), cell(place ? num(place.part.end) : "–", "num"), cell(num(lag(each)), "num"), cell(each.pending && pill("open", "an open transaction has another"))); })) : empty("None."))),
      story.length ? panel("Exchanges", "without heartbeats", sequence(story, null, this.root.clientWidth - 28)) : null);
  },
};
const lag = (each) => { const place = partitionOf(each.topic, each.partition); return place ? Math.max(0, place.part.end - each.offset) : 0; };
const ACTIONS = ["drop_reply", "drop", "error", "delay", "duplicate", "disconnect", "hold", "throttle"];
const APIS = ["PRODUCE", "FETCH", "END_TXN", "INIT_PRODUCER_ID", "ADD_PARTITIONS_TO_TXN", "TXN_OFFSET_COMMIT", "OFFSET_COMMIT", "METADATA", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "FIND_COORDINATOR"];
const Faults = {
  mount(root) {
    this.list = h("div");
    root.append(panel("Fault rules", S.live ? "they act from now on" : "as they were", this.list));
    if (!S.live) return;
    const field = (text, input) => h("label", null, text, input);
    const input = (name, props) => h("input", { name, ...props });
    const form = h("form", { class: "add", onsubmit: (event) => {
      event.preventDefault();
      const given = Object.fromEntries(new FormData(form)), rule = { on: given.on ? [given.on] : [], action: given.action };
      for (const name of ["topic", "client_id", "code", "at"]) if (given[name]) rule[name] = given[name];
      for (const name of ["partition", "node", "ms", "times"]) if (given[name]) rule[name] = Number(given[name]);
      if (given.forever) { delete rule.times; rule.forever = true; }
      order("The rule is on.", "POST", "faults", rule);
    } }, field("requests", h("select", { name: "on" }, h("option", { value: "" }, "any"), APIS.map((api) => h("option", { value: api }, api)))), field("action", h("select", { name: "action" }, ACTIONS.map((action) => h("option", { value: action }, action)))),
    field("times", input("times", { type: "number", min: 1, placeholder: "1" })), field("for ever", input("forever", { type: "checkbox" })), field("topic", input("topic")), field("partition", input("partition", { type: "number", min: 0 })), field("client id", input("client_id")), field("broker", input("node", { type: "number", min: 0 })),
    field("code, for error", input("code", { placeholder: "NOT_ENOUGH_REPLICAS" })), field("ms, for delay, throttle", input("ms", { type: "number", min: 0 })), h("button", { class: "main", type: "submit" }, "Add"));
    form.elements.on.value = "PRODUCE";
    root.append(panel("Add a rule", "as `fencepost fault add` does", form));
  },
  update() {
    const remove = (path) => () => order("Removed.", "DELETE", path);
    put(this.list, S.faults.length ? table(["#id", "requests", "where", "acts", "action", "how often", "#hits", "#holds", ""], S.faults.map((each) => h("tr", null, cell(each.id, "num"), cell(each.on.join(", ") || "any"), cell(shown(["topic", "partition", "group", "txn", "node", "client_id"].filter((name) => each[name] !== undefined && each[name] !== null).map((name) => `${name}=${each[name]}`).join(" ")) || "–", "wide"), cell(each.at), cell([each.action, each.code ? ` ${each.code}` : "", each.ms !== undefined ? ` ${each.ms} ms` : ""].join("")), cell(shown(["times", "forever", "every", "probability", "after", "nth"].filter((name) => each[name] !== undefined && each[name] !== null && each[name] !== false).map((name) => `${name} ${each[name] === true ? "" : each[name]}`).join(" ")) || "–"), cell(num(each.hits), "num"), cell(num(each.holding), "num"),
      cell(S.live && [each.holding ? h("button", { onclick: () => order("", "POST", `faults/${each.id}/release`, {}) }, "release") : null, " ", h("button", { onclick: remove(`faults/${each.id}`) }, "remove")])))) : empty("No fault rule is on."),
      S.live && S.faults.length > 1 && h("p", null, h("button", { onclick: remove("faults") }, "remove all")));
  },
};
