// The first view: what went wrong, the leaders, what readers wait for, and what changed.
function findingList(found) {
  if (!found.length) return empty("Nothing went wrong in what the journal and the logs have.");
  return h("ul", { class: "found" }, found.map((each) => h("li", { class: each.level },
    h("span", { class: "dot", title: each.level }),
    h("div", null,
      h("a", { href: placeOf(each), class: "title" }, shown(each.title)), h("span", { class: "kind" }, each.kind),
      h("p", null, shown(each.text), " ", each.rows.slice(0, 6).map((n) => [exchangeLink(n), " "]), each.topic !== null && each.partition !== null && partitionLink(each.topic, each.partition))))));
}
function placeOf(each) {
  if (each.tab === "exchanges" && each.rows.length) return `#exchanges/${each.rows[0]}`;
  if (each.tab === "topics" && each.topic !== null) return lane(each.topic, each.partition === null ? 0 : each.partition);
  return each.rows.length && !each.tab ? `#exchanges/${each.rows[0]}` : `#${each.tab || "exchanges"}`;
}
const Overview = {
  update() {
    const snap = S.snapshot, all = partitions();
    const waiting = all.filter((each) => each.part.held);
    const isrShort = all.filter((each) => each.part.isr.length < each.part.replicas.length).length;
    const leaderless = all.filter((each) => each.part.leader < 0).length;
    const topics = snap.topics.filter((each) => !each.internal).length;
    const open = snap.transactions.filter((txn) => isOpen(txn.state)).length;
    const many = (value, one, more) => value === 1 ? one : more;
    const stat = (value, text, hot) => h("div", null, h("b", { class: hot && value ? "hot" : null }, num(value)), text);
    put(this.root,
      h("div", { class: "strip" },
        stat(snap.brokers.filter((each) => each.state === "up").length, `of ${counted(snap.brokers.length, "broker")} up`),
        stat(topics, many(topics, "topic", "topics")),
        snap.topics_left_out ? stat(snap.topics_left_out, many(snap.topics_left_out, "more topic, not counted here", "more topics, not counted here"), true) : null,
        stat(leaderless, "without leader", true), stat(isrShort, "short of in-sync replicas", true),
        stat(open, many(open, "open transaction", "open transactions")), stat(waiting.length, many(waiting.length, "partition holds readers back", "partitions hold readers back")), stat(snap.groups.length, many(snap.groups.length, "group", "groups")),
        stat(S.rows.size, many(S.rows.size, "exchange kept", "exchanges kept")), Object.entries(snap.stats || {}).filter(([name]) => ["duplicates", "refused", "leader_moves", "connections_cut"].includes(name)).filter(([, value]) => value).map(([name, value]) => stat(value, many(value, name.replace(/s(?=_|$)/, ""), name).replace("_", " ")))),
      snap.problem && h("p", { class: "panel told-refused", role: "alert" }, shown(snap.problem), " The exchanges are shown all the same."),
      h("div", { class: "cols" },
        h("div", null,
          panel("What went wrong", counted(S.findings.length, "finding"), findingList(S.findings)),
          panel("Readers wait", "open transactions that hold the last stable offset (LSO) back", waiting.length ? table(["partition", "#LSO", "#high watermark", "held by", "since"],
            waiting.map(({ topic, part }) => pick(lane(topic.name, part.index), `w${topic.name}${part.index}`, [cell(`${shown(topic.name)}-${part.index}`), cell(num(part.lso), "num"), cell(num(part.hw), "num"),
              cell(part.held.txn ? `${shown(part.held.txn)} (pid ${part.held.pid} epoch ${part.held.epoch})` : `pid ${part.held.pid} epoch ${part.held.epoch}, no coordinator knows it`, "wide"), cell(ago(now() - part.held.since_ms))]))) : empty("No open transaction holds readers back."))),
        h("div", null,
          panel("Brokers", snap.severed && snap.severed.length ? `links cut: ${snap.severed.map((each) => each.join("→")).join(", ")} (0 is the controller)` : "", table(["node", "address", "state", "#connections", "#leads", "#replicas"],
            snap.brokers.map((each) => h("tr", null, cell(each.node), cell(shown(each.address), "mono"), cell(pill(each.state, each.state)), cell(num(each.connections), "num"), cell(num(each.leads), "num"), cell(num(each.replicas), "num"))))),
          panel("Topics", snap.topics_left_out ? `${counted(snap.topics_left_out, "topic")} more` : "", topicTable(snap.topics)),
          panel("Changes", "leaders, in-sync replicas and brokers, newest first", snap.changes.length ? table(["at", "what"], grouped(snap.changes).slice(-30).reverse().map((each) => h("tr", null, cell(time(each.at), "mono"), cell(changeText(each), "wide")))) : empty("None.")))));
  },
};
function topicTable(topics) {
  const sum = (topic, field) => topic.partitions.reduce((total, part) => total + part[field], 0);
  return table(["topic", "#partitions", "#offsets", "leaders", "ISR"], topics.map((topic) => {
    const short = topic.partitions.filter((part) => part.isr.length < part.replicas.length).length;
    const leaders = [...new Set(topic.partitions.map((part) => part.leader))].sort((a, b) => a - b).map((node) => node < 0 ? "none" : node).join(", ");
    return pick(`#topics/${enc(topic.name)}`, `t${topic.name}`, [cell(h("span", { class: topic.internal ? "soft" : null }, cut(shown(topic.name), 60))), cell(num(topic.partitions_total), "num"), cell(num(sum(topic, "end") - sum(topic, "start")), "num"), cell(leaders), cell(short ? pill("warning", `${short} short`) : "full")]);
  }));
}
