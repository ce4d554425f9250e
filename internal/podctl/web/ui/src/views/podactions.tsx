// What can be done with a pod: logs, a terminal, restart, delete.
import { useState } from "preact/hooks";
import { choicesOf } from "./logpicker.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { fullName } from "./pods.tsx";
import { go } from "../routes.ts";
import { logs } from "../store/logs.ts";
import type { PodRow } from "../../gen/podweb/v1/topics_pb.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { useShortcuts } from "../keys.ts";

export function PodActions(props: { row: PodRow }) {
  const { row } = props;
  const [asking, setAsking] = useState("");
  const session = stream.session;
  const gateway = session?.gateway ?? false;
  const openLogs = () => {
    if (!row.observed) return;
    logs.choose(choicesOf(row));
    go(["logs"]);
  };
  const openExec = () => {
    if (row.observed && session?.execAllowed) go(["exec", row.key]);
  };
  useShortcuts([
    { keys: "o", text: "The logs of this pod", run: openLogs },
    { keys: "e", text: "A terminal in this pod", run: openExec },
  ]);
  if (gateway) return null;
  const live = stream.state === "live";
  return (
    <>
      <button type="button" class="button" onClick={openLogs} disabled={!row.observed}>Logs</button>
      <button
        type="button" class="button" onClick={openExec} disabled={!row.observed || !session?.execAllowed}
        title={session?.execAllowed ? "" : show(session?.execRefusal, 300)}
      >
        Terminal
      </button>
      <button
        type="button" class="button" onClick={() => setAsking("restart")} disabled={!live || !row.observed || !session?.applyAllowed}
        title={session?.applyAllowed ? "" : show(session?.applyRefusal, 300)}
      >
        Restart
      </button>
      {row.source === "applied" && (
        <button
          type="button" class="button" onClick={() => setAsking("delete")} disabled={!live || !session || session.manifestRefusal !== ""}
          title={show(session?.manifestRefusal, 300)}
        >
          Delete
        </button>
      )}
      {asking === "restart" && (
        <Confirm
          title={"Restart " + show(fullName(row), 300) + "?"} verb="Restart" onClose={() => setAsking("")}
          action={{ action: { case: "restart", value: { podKey: row.key, container: "" } } }}
        />
      )}
      {asking === "delete" && (
        <Confirm
          title={"Delete " + show(fullName(row), 300) + "?"} verb="Delete" danger onClose={() => setAsking("")}
          action={{ action: { case: "delete", value: { podKey: row.key } } }}
        />
      )}
    </>
  );
}
