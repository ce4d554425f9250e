// Drop a manifest, see what it would change, then apply it.
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../parts/announce.tsx";
import { client, errorText } from "../api.ts";
import { Confirm } from "../parts/confirm.tsx";
import type { DiffManifestResponse, PodDiff } from "../../gen/podweb/v1/podweb_pb.ts";
import { FindingText } from "../parts/finding.tsx";
import { fullName } from "./pods.tsx";
import { go } from "../routes.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { Text } from "../parts/text.tsx";
import { useChanges } from "../store/changes.ts";
import { useShortcuts } from "../keys.ts";

const mostBytes = 3 << 20;
const encoder = new TextEncoder();

// The manifest stays while the user looks at another view.
let kept = "";

interface Compared { content: string; source: string; answer?: DiffManifestResponse; error?: string }

/** effectClass returns the class of an effect's tag. */
function effectClass(effect: string): string {
  return { starts: "add", stops: "remove", restarts: "warn" }[effect] ?? "update";
}

export function ApplyView() {
  useChanges(stream);
  const [content, setContent] = useState(kept);
  const [compared, setCompared] = useState<Compared>();
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  const [source, setSource] = useState("");
  const picker = useRef<HTMLInputElement>(null);
  const session = stream.session;
  const sources = session?.fileSources ?? [];
  const chosen = sources.includes(source) ? source : sources.includes("applied") ? "applied" : sources[0] ?? "";
  useEffect(() => {
    kept = content;
  }, [content]);
  const take = (text: string) => {
    if (encoder.encode(text).length > mostBytes) {
      setProblem("The manifest is larger than 3 MiB.");
      return;
    }
    setProblem("");
    setContent(text);
    void compare(text);
  };
  const read = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > mostBytes) setProblem("The file is larger than 3 MiB.");
    else take(await file.text());
  };
  const compare = async (text = content) => {
    if (text.trim() === "") return;
    setBusy(true);
    try {
      const answer = await client.diffManifest({ content: encoder.encode(text), source: chosen }, { timeoutMs: 30000 });
      setCompared({ content: text, source: chosen, answer });
      announce(answer.changes.length + " changes, " + answer.findings.length + " findings.");
    } catch (error) {
      stream.end(error);
      setCompared({ content: text, source: chosen, error: errorText(error) });
    }
    setBusy(false);
  };
  useShortcuts([
    { keys: "o", text: "Open a file", run: () => picker.current?.click() },
    { keys: "c", text: "Compare", run: () => void compare() },
    { keys: "w", text: "Write a manifest", run: () => document.getElementById("manifest")?.focus() },
  ]);
  const answer = compared?.answer;
  const old = compared !== undefined && (compared.content !== content || compared.source !== chosen);
  // What was compared with a source that can't be written can't be applied either.
  const refusal = session?.manifestRefusal ||
    (answer && !answer.basis && compared?.source !== "applied" ? "The manifest was compared with the source " + compared?.source + ", which podctl doesn't write: choose the source applied." : "");
  return (
    <>
      <div class="head">
        <h1>Apply</h1>
        <button type="button" class="button" onClick={() => picker.current?.click()}>Open a file</button>
        <input
          ref={picker} type="file" class="hidden" tabIndex={-1} aria-hidden="true" accept=".yaml,.yml,.json"
          onChange={(event) => {
            void read(event.currentTarget.files?.[0]);
            event.currentTarget.value = "";
          }}
        />
        {sources.length > 1 && (
          <label class="check">
            as of the source{" "}
            <select class="field" value={chosen} onChange={(event) => setSource(event.currentTarget.value)}>
              {sources.slice(0, 50).map((one) => <option value={one}>{show(one, 60)}</option>)}
            </select>
          </label>
        )}
        <span class="grow" />
        {problem && <span class="tag bad" role="alert">{problem}</span>}
        {old && compared && <span class="tag warn">{compared.content === content ? "the source" : "the manifest"} has been changed since</span>}
        <button type="button" class="button" onClick={() => void compare()} disabled={busy || content.trim() === "" || stream.state !== "live"}>
          {busy ? "Comparing…" : "Compare"}
        </button>
        <button
          type="button" class="button primary" onClick={() => setAsking(true)} title={show(refusal, 300)}
          disabled={!answer || old || answer.rejected || refusal !== "" || stream.state !== "live"}
        >
          Apply…
        </button>
      </div>
      <div class="body">
        <div class="split halves">
          <div
            class={"stack drop" + (over ? " over" : "")}
            onDragOver={(event) => {
              event.preventDefault();
              setOver(true);
            }}
            onDragLeave={() => setOver(false)}
            onDrop={(event) => {
              event.preventDefault();
              setOver(false);
              void read(event.dataTransfer?.files[0]);
            }}
          >
            <textarea
              id="manifest" class="field mono grow manifest" aria-label="Manifest" spellcheck={false} value={content} data-first
              placeholder={"Drop a manifest here, open a file, or write one.\n\napiVersion: v1\nkind: Pod\nmetadata:\n  name: web"}
              onInput={(event) => setContent(event.currentTarget.value)}
            />
          </div>
          <section class="panel scroll pad stack" aria-label="What would change" tabIndex={0}>
            {refusal && <p class="muted">{show(refusal, 500)}</p>}
            {!compared && <div class="empty"><strong>Nothing is compared yet</strong>Compare shows what the manifest would change. Nothing is applied by that.</div>}
            {compared?.error && <p class="tag bad whole" role="alert">{show(compared.error, 2000)}</p>}
            {answer && (
              <>
                <p class="muted">
                  Compared{answer.revision > 0n && " with revision " + answer.revision}{answer.origin && <>, as <span class={answer.basis ? "" : "mono"}>{show(answer.origin, 300)}</span></>}.
                  {answer.rejected && <strong> A document is rejected, so the manifest can't be applied.</strong>}
                </p>
                {answer.findings.slice(0, 50).map((finding) => <FindingText finding={finding} />)}
                {answer.documents.length > 0 && <ul class="plain" aria-label="Documents">{answer.documents.slice(0, 201).map((line) => <li>{show(line, 1000)}</li>)}</ul>}
                {answer.changes.length === 0 && !answer.rejected && <p>{answer.basis ? "No pod would change." : "Nothing would change."}</p>}
                {answer.changes.slice(0, 50).map((change) => <Changed change={change} />)}
                {answer.changes.length > 50 && <p class="muted">and {answer.changes.length - 50} more pods</p>}
              </>
            )}
          </section>
        </div>
      </div>
      {asking && answer && (
        <Confirm
          title="Apply this manifest?" verb="Apply" onClose={() => setAsking(false)}
          action={{ action: { case: "apply", value: { content: encoder.encode(compared!.content), revision: answer.revision, basis: answer.basis } } }}
          onDone={() => void compare()}
        />
      )}
    </>
  );
}

function Changed(props: { change: PodDiff }) {
  const { change } = props;
  return (
    <article class="changed">
      <div class="row">
        <span class={"tag " + effectClass(change.effect)}>{show(change.effect, 40)}</span>
        <strong class="cut">{show(fullName(change), 500)}</strong>
        <span class="muted">{show(change.reason, 300)}</span>
        <span class="grow" />
        {change.effect !== "starts" && <button type="button" class="button" onClick={() => go(["pods", change.key])}>Open the pod</button>}
      </div>
      {change.unified && <div class="diff-box"><Text label={"Difference of " + show(fullName(change), 300)} text={change.unified} diff /></div>}
    </article>
  );
}
