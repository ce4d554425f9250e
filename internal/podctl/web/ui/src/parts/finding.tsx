// A finding: what is wrong with a manifest, at file and line, with the mistake marked.
import type { Finding } from "../../gen/podweb/v1/topics_pb.ts";
import { show } from "../escape.ts";
import { Snippet } from "./text.tsx";

/** severityClass returns the class of a severity's tag. */
export function severityClass(severity: string): string {
  return { ERROR: "bad", WARNING: "warn", CONFLICT: "restore" }[severity] ?? "";
}

/** place returns FILE:LINE:COLUMN, as far as it is known. */
export function place(finding: Finding): string {
  let text = finding.origin;
  if (finding.line > 0) text += ":" + finding.line + (finding.column > 0 ? ":" + finding.column : "");
  else if (finding.document > 1) text += " (document " + finding.document + ")";
  return text;
}

export function FindingText(props: { finding: Finding }) {
  const { finding } = props;
  return (
    <article>
      <p>
        <span class={"tag " + severityClass(finding.severity)}>{show(finding.severity.toLowerCase(), 20)}</span>{" "}
        <strong class="whole">{show(finding.message, 2000)}</strong>
      </p>
      <dl class="facts">
        <dt>Place</dt><dd class="mono">{show(place(finding), 1000)}</dd>
        {finding.field && <><dt>Field</dt><dd class="mono">{show(finding.field, 500)}</dd></>}
        {finding.document > 0 && <><dt>Document</dt><dd>{finding.document}</dd></>}
        {finding.keptPods.length > 0 && (
          <>
            <dt>Pods that stay</dt>
            <dd>{finding.keptPods.slice(0, 20).map((pod) => show(pod, 300)).join(", ")}{finding.keptPods.length > 20 ? " …" : ""}</dd>
          </>
        )}
      </dl>
      {finding.lines.length > 0
        ? <Snippet lines={finding.lines} warn={finding.severity !== "ERROR"} label={"The lines about the mistake"} />
        : <p class="muted">podctl can't read this file, so its lines are not shown.</p>}
    </article>
  );
}
