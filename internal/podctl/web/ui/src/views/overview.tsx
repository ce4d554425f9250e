// The first tab of a pod: why it waits, its containers, and where it comes from.
import type { ContainerRow, PodRow, PullRow } from "../../gen/podweb/v1/topics_pb.ts";
import { bytes, clock, full, millis, span } from "../time.ts";
import type { GetPodResponse } from "../../gen/podweb/v1/podweb_pb.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";

function containerClass(row: ContainerRow): string {
  if (row.state === "running") return row.ready || row.kind === "init" ? "ok" : "info";
  if (row.state === "terminated") return row.exitCode === 0 ? "" : "bad";
  return /BackOff|Err/.test(row.reason) ? "bad" : "info";
}

function containerState(row: ContainerRow): string {
  let text = row.state || "unknown";
  if (row.reason) text += ": " + row.reason;
  if (row.state === "terminated" && row.exitCode !== 0) text += " (exit code " + row.exitCode + ")";
  return text;
}

/** Pull shows how far a pull is. */
export function Pull(props: { pull: PullRow }) {
  const { pull } = props;
  const total = Number(pull.totalBytes);
  const done = Number(pull.bytes);
  const started = millis(pull.startedTime);
  return (
    <li>
      <span class="mono cut" title={show(pull.image, 500)}>{show(pull.image, 120)}</span>{" "}
      {started === undefined
        ? "is queued"
        : "for " + span(stream.now() - started) + (done >= 0 ? ": " + bytes(done) + (total > 0 ? " of " + bytes(total) : "") : "")}
      {total > 0 && done >= 0 && <> <progress max={total} value={done} aria-label="Pulled" /></>}
    </li>
  );
}

export function Overview(props: { row: PodRow; answer: GetPodResponse | undefined }) {
  const { row, answer } = props;
  const reasons = answer?.waitReasons.length ? answer.waitReasons : row.waitReasons;
  const since = millis(row.since);
  const retry = millis(row.retryTime);
  return (
    <div class="scroll pad stack" tabIndex={0} role="region" aria-label="Overview">
      <section>
        <h2 class="minor">Why it waits</h2>
        {reasons.length === 0
          ? <p class="muted">It doesn't wait.</p>
          : <ol class="reasons">{reasons.slice(0, 50).map((one) => <li>{show(one, 1000)}</li>)}</ol>}
        {retry !== undefined && retry > stream.now() && <p class="muted">It is tried again at {clock(retry)}, in {span(retry - stream.now())}.</p>}
        {row.pulls.length > 0 && <ul class="reasons">{row.pulls.slice(0, 50).map((pull) => <Pull pull={pull} />)}</ul>}
        {row.lastError && <p class="tag bad whole">{show(row.lastError, 1000)}</p>}
      </section>
      <section>
        <h2 class="minor" id="containers">Containers</h2>
        <div class="scroll">
          <table class="table" aria-labelledby="containers">
            <thead>
              <tr><th>Name</th><th>State</th><th>Ready</th><th class="num">Restarts</th><th>Since</th><th>Image</th><th>Message</th></tr>
            </thead>
            <tbody>
              {row.containers.slice(0, 100).map((one) => (
                <tr key={one.kind + one.name}>
                  <th scope="row">{show(one.name, 100)} {one.kind !== "container" && <span class="tag">{show(one.kind, 20)}</span>}</th>
                  <td><span class={"state " + containerClass(one)}>{show(containerState(one), 150)}</span></td>
                  <td>{one.ready ? "yes" : "no"}</td>
                  <td class="num">{one.restarts}</td>
                  <td title={full(millis(one.since))}>{one.since ? span(stream.now() - millis(one.since)!) : ""}</td>
                  <td class="mono wrap">{show(one.image, 300)}</td>
                  <td class="wrap">{show(one.message, 500)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <section>
        <h2 class="minor">Pod</h2>
        <dl class="facts">
          <dt>Desired by</dt>
          <dd>{row.desired ? show(row.source, 100) : "no source"}{row.stale ? ", stale: its source has not confirmed it yet" : ""}</dd>
          {answer?.file && (
            <>
              <dt>Manifest</dt>
              <dd class="mono">{show(answer.file, 500)}{answer.line > 0 ? ":" + answer.line : ""}</dd>
            </>
          )}
          <dt>Spec digest</dt><dd class="mono">{show(row.specDigest, 80) || "–"}</dd>
          <dt>Observed</dt><dd>{row.observed ? show(row.status, 100) + (row.worker ? ", worker " + show(row.worker, 60) : "") : "not observed"}</dd>
          <dt>Since</dt><dd>{since === undefined ? "–" : full(since) + " (" + span(stream.now() - since) + ")"}</dd>
          <dt>IP</dt><dd class="mono">{show(row.ip, 100) || "–"}</dd>
          <dt>Node</dt><dd>{show(row.node, 253) || "–"}</dd>
          <dt>UID</dt><dd class="mono">{show(row.name?.uid, 100)}</dd>
        </dl>
        {answer?.missing && <p class="muted">{show(answer.missing, 500)}</p>}
      </section>
    </div>
  );
}
