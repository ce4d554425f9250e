// A terminal in a container, after the user has agreed to the command.
import { create } from "@bufbuild/protobuf";
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../parts/announce.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { ExecActionSchema, type ExecAction } from "../../gen/podweb/v1/podweb_pb.ts";
import { fullName } from "./pods.tsx";
import { go } from "../routes.ts";
import type { Opened } from "../term/terminal.ts";
import { pods, useStore } from "../store/stores.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { useChanges } from "../store/changes.ts";

/** words splits a command at spaces; single and double quotes keep what is between them. */
export function words(text: string): string[] {
  const all: string[] = [];
  for (const found of text.slice(0, 4096).matchAll(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g)) {
    all.push(found[0].replace(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ""));
  }
  return all.slice(0, 64);
}

export function ExecView(props: { path: string[] }) {
  useStore(pods);
  useChanges(stream);
  const session = stream.session;
  const candidates = pods.sorted().filter((row) => row.observed && row.containers.some((one) => one.state === "running"));
  const row = pods.get(props.path[0] ?? "");
  const running = row?.containers.filter((one) => one.state === "running") ?? [];
  const [container, setContainer] = useState("");
  const [command, setCommand] = useState("sh");
  const [asking, setAsking] = useState<ExecAction>();
  const [opened, setOpened] = useState<{ action: ExecAction; confirmation: string; name: string }>();
  const [status, setStatus] = useState("");
  const chosen = running.find((one) => one.name === container) ?? running[0];
  const refusal = session && !session.execAllowed ? session.execRefusal : "";
  const ask = (event: Event) => {
    event.preventDefault();
    if (!row || !chosen) return;
    const all = words(command);
    if (all.length > 0) setAsking(create(ExecActionSchema, { podKey: row.key, container: chosen.name, command: all, tty: true }));
  };
  return (
    <>
      <form class="head" onSubmit={ask}>
        <h1>Terminal</h1>
        <select
          class="field" aria-label="Pod" value={row?.key ?? ""} onChange={(event) => go(["exec", event.currentTarget.value])}
        >
          <option value="">Choose a pod</option>
          {candidates.slice(0, 1000).map((one) => <option value={one.key}>{show(fullName(one), 300)}</option>)}
        </select>
        <select class="field" aria-label="Container" value={chosen?.name ?? ""} disabled={!row} onChange={(event) => setContainer(event.currentTarget.value)}>
          {running.slice(0, 100).map((one) => <option value={one.name}>{show(one.name, 100)}</option>)}
        </select>
        <input class="field mono grow" aria-label="Command" value={command} maxLength={4096} onInput={(event) => setCommand(event.currentTarget.value)} />
        <button type="submit" class="button primary" disabled={!row || !chosen || refusal !== "" || !!opened || stream.state !== "live"} title={show(refusal, 300)}>Run…</button>
        {opened && <button type="button" class="button" id="close-terminal" onClick={() => setOpened(undefined)}>Close</button>}
      </form>
      <div class="body">
        <div class="muted" role="status">{show(status || refusal, 500)}&nbsp;</div>
        {opened
          ? <Tty key={opened.confirmation} {...opened} onStatus={setStatus} />
          : (
            <div class="panel empty grow">
              <strong>No terminal is open</strong>
              {refusal ? show(refusal, 500) : "Choose a pod and a command. You are asked before it runs. Control F6 leaves the terminal."}
            </div>
          )}
      </div>
      {asking && row && (
        <Confirm
          title={"Run a command in " + show(fullName(row), 300) + "?"} verb="Run" action={{ action: { case: "exec", value: asking } }}
          onClose={() => setAsking(undefined)}
          onConfirmed={(confirmation) => {
            setStatus("");
            setOpened({ action: asking, confirmation, name: fullName(row) });
            setAsking(undefined);
          }}
        />
      )}
    </>
  );
}

function Tty(props: { action: ExecAction; confirmation: string; name: string; onStatus: (text: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let opened: Opened | undefined;
    let here = true;
    props.onStatus("The terminal is being opened.");
    void import("../term/terminal.ts").then((module) => {
      if (!here || !box.current) return;
      opened = module.open({
        element: box.current, action: props.action, confirmation: props.confirmation,
        onStart: (container) => props.onStatus("Runs in the container " + container + " of " + props.name + ". Control F6 leaves the terminal."),
        onEnd: (text) => {
          props.onStatus(text);
          announce(show(text, 300));
        },
        onLeave: () => document.getElementById("close-terminal")?.focus(),
      });
    });
    return () => {
      here = false;
      opened?.close();
    };
  }, []);
  return <div class="tty" ref={box} />;
}
