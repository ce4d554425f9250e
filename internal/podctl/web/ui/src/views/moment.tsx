// What one op changed, and the pods that were desired after its revision.
import { useEffect, useState } from "preact/hooks";
import { call, client, errorText } from "../api.ts";
import { clock, full, millis } from "../time.ts";
import { type Column, Grid } from "../parts/grid.tsx";
import type { DesiredPod, ListDesiredAtResponse } from "../../gen/podweb/v1/podweb_pb.ts";
import { fullName } from "./pods.tsx";
import { go } from "../routes.ts";
import { kindText, opClass } from "./timeline.tsx";
import type { Line } from "../store/timeline.ts";
import type { OpPod } from "../../gen/podweb/v1/topics_pb.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { Tabs } from "../parts/tabs.tsx";
import { Text } from "../parts/text.tsx";

const opPods: Column<OpPod>[] = [
  { title: "Pod", width: "minmax(0, 1fr)", cell: (pod) => show(fullName(pod), 500), full: fullName },
  { title: "Node", width: "minmax(0, 90px)", cell: (pod) => show(pod.node, 253) },
];

const desired: Column<DesiredPod>[] = [
  { title: "Pod", width: "minmax(0, 1fr)", cell: (pod) => show(fullName(pod), 500), full: fullName },
  { title: "Source", width: "minmax(0, 80px)", cell: (pod) => show(pod.source, 100) },
  { title: "Changed at", width: "84px", num: true, cell: (pod) => (pod.changedSequence ? "#" + pod.changedSequence : "earlier") },
];

export function Moment(props: { line: Line | undefined }) {
  const [tab, setTab] = useState("change");
  const revision = props.line?.revision;
  if (!revision) {
    return (
      <section class="panel stack" aria-label="Revision">
        <div class="empty"><strong>No revision is selected</strong>Select one to see what it changed, or move the slider back.</div>
      </section>
    );
  }
  return (
    <section class="panel stack" aria-label={"Revision " + revision.revision}>
      <div class="pad head-in">
        <h2>
          Revision {String(revision.revision)} {kindText(revision) && <span class="tag restore">{kindText(revision)}</span>}
        </h2>
        <span class="muted" title={full(millis(revision.time))}>
          {clock(millis(revision.time), true)} {revision.timeReceived ? "(received)" : ""} · {revision.ops.length + revision.omittedOps} ops
        </span>
      </div>
      <Tabs
        label="Revision" current={tab} onTab={setTab}
        tabs={[["change", "Change"], ["desired", "Desired after it"]]}
      />
      {tab === "change" ? <Change key={props.line!.key} line={props.line!} /> : <Desired sequence={revision.sequence} />}
    </section>
  );
}

function Change(props: { line: Line }) {
  const op = props.line.op;
  const [key, setKey] = useState("");
  if (!op) return <div class="empty">This revision has no op for this view.</div>;
  const pods = op.pods;
  const pod = pods.find((one) => one.key === key) ?? pods[0];
  const none = pod?.statusOnly ? "Only the status changed." : op.op === "REMOVE" ? "The pod is gone from its source." : "What changed is not known.";
  return (
    <>
      <div class="row pad-x">
        <span class={"tag " + opClass(op.op)}>{show(op.op, 20)}</span>
        <span>{op.source ? "by " + show(op.source, 100) : ""}</span>
        <span class="muted">{op.sourceBecameReady ? "The source became ready." : pods.length + op.omittedPods + (pods.length + op.omittedPods === 1 ? " pod" : " pods")}</span>
        <span class="grow" />
        {pod && <button type="button" class="button" onClick={() => go(["pods", pod.key])}>Open the pod</button>}
      </div>
      {pods.length > 1 && (
        <Grid
          class="few" label="Pods of the op" rows={pods} columns={opPods} keyOf={(one) => one.key} titles={false}
          selected={pod?.key} onSelect={(one) => setKey(one.key)} empty=""
        />
      )}
      {pods.length === 1 && pod && <div class="pad-x cut mono" title={show(fullName(pod))}>{show(fullName(pod))}</div>}
      {pod && (pod.change
        ? <Text label="What changed" text={pod.change + (pod.changeCut ? "\n… (longer)" : "")} diff />
        : <div class="empty">{none}</div>)}
    </>
  );
}

function Desired(props: { sequence: bigint }) {
  const [state, set] = useState<{ answer?: ListDesiredAtResponse; error?: string; sequence: bigint }>({ sequence: 0n });
  useEffect(() => {
    const abort = new AbortController();
    const id = window.setTimeout(async () => {
      try {
        const answer = await client.listDesiredAt({ sequence: props.sequence }, { ...call, signal: abort.signal });
        set({ answer, sequence: props.sequence });
      } catch (error) {
        if (abort.signal.aborted) return;
        stream.end(error);
        set({ error: errorText(error), sequence: props.sequence });
      }
    }, 100);
    return () => {
      window.clearTimeout(id);
      abort.abort();
    };
  }, [props.sequence]);
  const pods = state.answer?.pods ?? [];
  return (
    <>
      <div class="pad-x muted">
        {state.error ? show(state.error, 300) : pods.length + " pods" + (state.answer?.omitted ? ", and " + state.answer.omitted + " more" : "")}
      </div>
      <Grid
        class="flat" label="Desired pods after the revision" rows={pods} columns={desired} keyOf={(pod) => pod.key}
        rowClass={(pod) => (pod.changedSequence === props.sequence ? "hit" : "")}
        onOpen={(pod) => go(["pods", pod.key])} empty={state.answer ? "No pod was desired." : state.error ? "" : "Loading…"}
      />
    </>
  );
}
