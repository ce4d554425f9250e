// Text shows a file or a difference: only the lines in view are in the document.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { showLines, showSpaced } from "../escape.ts";
import type { SourceLine } from "../../gen/podweb/v1/topics_pb.ts";

const height = 19;

/** lineClass returns the class of a line of a unified difference. */
function lineClass(line: string): string {
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return "";
}

/** Text shows text with the numbers of its lines, or as a unified difference if diff is set. */
export function Text(props: { text: string; label: string; diff?: boolean }) {
  const box = useRef<HTMLPreElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const lines = useRef<{ text: string; lines: string[] } | undefined>(undefined);
  if (lines.current?.text !== props.text) lines.current = { text: props.text, lines: showLines(props.text.replace(/\t/g, "  ")) };
  const all = lines.current.lines;
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / height) - 10);
  const last = Math.min(all.length, Math.ceil((view.top + view.height) / height) + 10);
  // The longest line gives the width, so that the horizontal scroll bar doesn't change while scrolling.
  const widest = all.reduce((most, line) => Math.max(most, line.length), 0);
  const shown = [];
  for (let i = first; i < last; i++) {
    const line = all[i]!;
    shown.push(
      <div key={i} class={props.diff ? lineClass(line) : ""} style={{ top: i * height + "px" }}>
        {!props.diff && <span class="no">{i + 1}</span>}
        <span>{props.diff ? " " + line : line}</span>
      </div>,
    );
  }
  return (
    <pre
      ref={box} class="text" tabIndex={0} aria-label={props.label} role="region"
      onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
    >
      <div class="lines" style={{ height: all.length * height + "px", width: widest + 9 + "ch" }}>{shown}</div>
    </pre>
  );
}

/** Snippet shows lines of a manifest with a mistake marked. */
export function Snippet(props: { lines: SourceLine[]; warn: boolean; label: string }) {
  return (
    <div class="snippet mono" role="figure" aria-label={props.label} tabIndex={0}>
      {props.lines.slice(0, 20).map((line) => {
        const start = Math.max(0, Math.min(line.markFrom, line.text.length));
        const end = Math.max(start, Math.min(line.markTo, line.text.length));
        return (
          <div class={line.marked ? "here" + (props.warn ? " warn" : "") : ""}>
            <span class="no">{line.number}</span>
            {line.marked && <span class="hidden">mistake: </span>}
            {line.marked && end > start
              ? (
                <>
                  {showSpaced(line.text.slice(0, start))}
                  <mark>{showSpaced(line.text.slice(start, end))}</mark>
                  {showSpaced(line.text.slice(end))}
                </>
              )
              : showSpaced(line.text)}
          </div>
        );
      })}
    </div>
  );
}
