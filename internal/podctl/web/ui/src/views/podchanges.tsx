// The revisions that changed one pod.
import { useEffect, useState } from "preact/hooks";
import { call, client, errorText } from "../api.ts";
import { clock, full, millis } from "../time.ts";
import { type Column, Grid } from "../parts/grid.tsx";
import { go } from "../routes.ts";
import { kindText, opClass } from "./timeline.tsx";
import { pods } from "../store/stores.ts";
import type { Revision } from "../../gen/podweb/v1/topics_pb.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { Text } from "../parts/text.tsx";

const columns: Column<Revision>[] = [
  { title: "Revision", width: "90px", cell: (one) => <span class="mono">{String(one.revision)}</span> },
  { title: "Time", width: "110px", cell: (one) => clock(millis(one.time), true), full: (one) => full(millis(one.time)) },
  {
    title: "Op", width: "minmax(90px, 1fr)",
    cell: (one) => <>{one.ops.slice(0, 3).map((op) => <><span class={"tag " + opClass(op.op)}>{show(op.op, 20)}</span> {show(op.source, 60)} </>)}{kindText(one)}</>,
  },
];

export function PodChanges(props: { id: string }) {
  const [state, set] = useState<{ list: Revision[]; begin: string; error: string; loaded: boolean }>({ list: [], begin: "", error: "", loaded: false });
  const [key, setKey] = useState("");
  const row = pods.get(props.id);
  useEffect(() => {
    const abort = new AbortController();
    const timer = window.setTimeout(async () => {
      try {
        const page = await client.listRevisions({ podKey: props.id, limit: 200 }, { ...call, signal: abort.signal });
        set({ list: page.revisions.reverse(), begin: page.begin?.reason ?? "", error: "", loaded: true });
      } catch (error) {
        if (abort.signal.aborted) return;
        stream.end(error);
        set((before) => ({ ...before, error: errorText(error) }));
      }
    }, 300);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [props.id, row?.specDigest, row?.desired, stream.opened]);
  const chosen = state.list.find((one) => String(one.sequence) === key) ?? state.list[0];
  const op = chosen?.ops.find((one) => one.pods.some((pod) => pod.key === props.id));
  const pod = op?.pods.find((one) => one.key === props.id);
  return (
    <div class="split flat-split">
      <Grid
        class="flat" label="Revisions of the pod, the newest first" rows={state.list} columns={columns}
        keyOf={(one) => String(one.sequence)} selected={chosen && String(chosen.sequence)} onSelect={(one) => setKey(String(one.sequence))}
        empty={state.error ? show(state.error, 300) : state.loaded ? "No revision that is kept changed this pod." : "Loading…"}
      />
      <section class="stack" aria-label="Change">
        {chosen && (
          <div class="row pad-x head-in">
            <strong>Revision {String(chosen.revision)}</strong>
            <button type="button" class="button" onClick={() => go(["timeline"], { at: String(chosen.sequence) })}>Show in the timeline</button>
          </div>
        )}
        {pod?.change
          ? <Text label="What changed" text={pod.change} diff />
          : <div class="empty">{pod?.statusOnly ? "Only the status changed." : chosen ? "What changed is not known." : show(state.begin, 300)}</div>}
      </section>
    </div>
  );
}
