// The logs of several containers, merged by time and followed.
import { useMemo, useRef, useState } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { clock, full } from "../time.ts";
import { type Column, Grid } from "../parts/grid.tsx";
import { ConnectionState } from "../../gen/podweb/v1/topics_pb.ts";
import { health } from "../parts/bar.tsx";
import { type LogRow, logs, mostContainers } from "../store/logs.ts";
import { LogPicker } from "./logpicker.tsx";
import { matches } from "./pods.tsx";
import { routes, setQuery } from "../routes.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { useChanges } from "../store/changes.ts";
import { useShortcuts } from "../keys.ts";
import { useStore } from "../store/stores.ts";

const label = (row: LogRow) => (row.line ? logs.choices[row.line.container]?.label ?? "" : "");

const columns = (labels: boolean): Column<LogRow>[] => [
  { title: "Time", width: "124px", cell: (row) => <span class="muted">{clock(row.at || undefined, true)}</span>, full: (row) => full(row.at) },
  ...(labels
    ? [{
      title: "Container", width: "minmax(90px, 190px)", full: label,
      cell: (row: LogRow) => <span class={"c" + (((row.line?.container ?? 0) % 8) + 1)}>{show(label(row), 200)}</span>,
    }]
    : []),
  {
    title: "Line", width: "minmax(200px, 1fr)",
    cell: (row) =>
      row.line
        ? <span class={row.line.stderr ? "err" : ""}>{show(row.line.text, 1000)}</span>
        : <span class="tag warn">{row.missed} lines came too fast and were left out</span>,
  },
];

export function LogsView() {
  useStore(logs);
  useChanges(routes, stream);
  const [picking, setPicking] = useState(false);
  // The lines that are shown while they aren't followed.
  const [held, setHeld] = useState<{ rows: readonly LogRow[]; received: number }>();
  const [key, setKey] = useState("");
  const following = useRef(true);
  const filter = routes.now.query.get("q") ?? "";
  const all = held?.rows ?? logs.list();
  const rows = useMemo(() => (filter === "" ? all : all.filter((row) => row.line && matches(filter, row.line.text, label(row)))), [all, filter]);
  const chosen = rows.find((row) => row.key === key);
  const hold = () => {
    following.current = false;
    setHeld((before) => before ?? { rows: logs.list(), received: logs.received });
  };
  const follow = () => {
    following.current = true;
    setHeld(undefined);
    setKey("");
  };
  useShortcuts([
    { keys: "a", text: "Choose containers", run: () => setPicking(true) },
    { keys: "f", text: "Follow the logs", run: follow },
    { keys: "h", text: "Hold the logs", run: hold },
  ]);
  const several = logs.choices.length > 1;
  const shape = useMemo(() => columns(several), [several]);
  return (
    <>
      <div class="head">
        <h1>Logs</h1>
        <button type="button" class="button" onClick={() => setPicking(true)}>Containers ({logs.choices.length})</button>
        {held
          ? <button type="button" class="button primary" onClick={follow}>Follow ({logs.received - held.received} new)</button>
          : <button type="button" class="button" onClick={hold} disabled={logs.list().length === 0}>Hold</button>}
        <Asof store={logs} />
        <span class="grow" />
        <input
          class="field" type="search" placeholder="Filter" aria-label="Filter lines" value={filter}
          onInput={(event) => setQuery("q", event.currentTarget.value.slice(0, 200))}
        />
      </div>
      <div class="body">
        {logs.choices.length > 0 && (
          <ul class="row plain-row" aria-label="Containers">
            {logs.choices.map((choice, i) => {
              const connection = logs.states[i];
              const [state, word] = health(connection);
              return (
                <li class="chip" title={show(connection?.text, 300)}>
                  <span class={"mono c" + ((i % 8) + 1)}>{show(choice.label, 120)}</span>
                  {connection && connection.state !== ConnectionState.LIVE && (
                    <span class={"state " + state}>{connection.state === ConnectionState.ENDED ? show(connection.text, 80) || "ended" : word}</span>
                  )}
                  <button
                    type="button" aria-label={"Remove " + show(choice.label, 120)}
                    onClick={() => logs.choose(logs.choices.filter((one) => one !== choice))}
                  >×</button>
                </li>
              );
            })}
          </ul>
        )}
        <Grid
          class={"log mono" + (stream.state === "live" ? "" : " old")} label="Lines, the oldest first" titles={false} rowHeight={19}
          rows={rows} columns={shape} keyOf={(row) => row.key} follow={!held} selected={chosen?.key}
          onSelect={(row) => {
            hold();
            setKey(row.key);
          }}
          onEnd={(end) => {
            if (!end) hold();
            else if (!following.current && !key) follow();
          }}
          empty={logs.choices.length === 0
            ? <button type="button" class="button primary" onClick={() => setPicking(true)}>Choose up to {mostContainers} containers</button>
            : emptiness(logs, filter ? "No line matches." : "There are no lines yet.")}
        />
        {chosen?.line && (
          <section class="panel pad scroll whole-line mono" aria-label="The whole line" tabIndex={0}>
            <div class="muted">{full(chosen.at)} {show(label(chosen), 300)} {chosen.line.stderr ? "stderr" : "stdout"}{chosen.line.cut ? ", cut" : ""}</div>
            {show(chosen.line.text, 20000)}
          </section>
        )}
      </div>
      {picking && <LogPicker onClose={() => setPicking(false)} />}
    </>
  );
}
