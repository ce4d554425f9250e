// The choice of the containers whose logs are shown.
import { useState } from "preact/hooks";
import { type Column, Grid } from "../parts/grid.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { fullName, matches } from "./pods.tsx";
import { type LogChoice, logs, mostContainers } from "../store/logs.ts";
import type { PodRow } from "../../gen/podweb/v1/topics_pb.ts";
import { pods, useStore } from "../store/stores.ts";
import { show } from "../escape.ts";

interface Item { key: string; choice: LogChoice; state: string }

/** choicesOf returns the containers of a pod. */
export function choicesOf(row: PodRow): LogChoice[] {
  return row.containers.map((one) => ({
    podKey: row.key, container: one.name, previous: false,
    label: row.containers.length > 1 ? (row.name?.name ?? "") + "/" + one.name : row.name?.name ?? "",
  }));
}

const keyOf = (choice: LogChoice) => choice.podKey + "/" + choice.container + (choice.previous ? "/previous" : "");

export function LogPicker(props: { onClose: () => void }) {
  useStore(pods);
  const [filter, setFilter] = useState("");
  const [chosen, setChosen] = useState<LogChoice[]>([...logs.choices]);
  const [previous, setPrevious] = useState(chosen.some((one) => one.previous));
  const items: Item[] = [];
  for (const row of pods.sorted()) {
    if (!row.observed) continue;
    row.containers.forEach((container, i) => {
      if (filter === "" || matches(filter, fullName(row), container.name)) {
        items.push({ key: row.key + "/" + container.name, choice: choicesOf(row)[i]!, state: container.reason || container.state });
      }
    });
  }
  const has = (item: Item) => chosen.some((one) => one.podKey === item.choice.podKey && one.container === item.choice.container);
  const toggle = (item: Item) =>
    setChosen((before) => (has(item)
      ? before.filter((one) => one.podKey !== item.choice.podKey || one.container !== item.choice.container)
      : before.length < mostContainers ? [...before, item.choice] : before));
  const columns: Column<Item>[] = [
    { title: "", width: "34px", cell: (item) => <span role="img" aria-label={has(item) ? "chosen" : "not chosen"}>{has(item) ? "☑" : "☐"}</span> },
    { title: "Container", width: "minmax(200px, 1fr)", cell: (item) => show(item.choice.label, 300), full: (item) => item.choice.label },
    { title: "State", width: "130px", cell: (item) => show(item.state, 60) },
  ];
  const apply = () => {
    const list = chosen.map((one) => ({ ...one, previous }));
    if (list.map(keyOf).join() !== logs.choices.map(keyOf).join()) logs.choose(list);
    props.onClose();
  };
  return (
    <Dialog
      title={"Containers: " + chosen.length + " of at most " + mostContainers} onClose={props.onClose}
      foot={<button type="button" class="button primary" onClick={apply}>Show the logs</button>}
    >
      <div class="row">
        <input
          class="field grow" type="search" placeholder="Filter" aria-label="Filter containers" value={filter} autofocus
          onInput={(event) => setFilter(event.currentTarget.value.slice(0, 200))}
        />
        <label class="check"><input type="checkbox" checked={previous} onChange={(event) => setPrevious(event.currentTarget.checked)} /> the containers before these</label>
        <button type="button" class="button" onClick={() => setChosen([])}>None</button>
      </div>
      <div class="picker">
        <Grid
          label="Containers; Enter chooses one" rows={items} columns={columns} keyOf={(item) => item.key} titles={false}
          onOpen={toggle} empty="No container matches."
        />
      </div>
    </Dialog>
  );
}
