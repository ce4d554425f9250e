// The scrubber: a slider over all revisions that are kept, above a drawing of how many pods each changed.
import { useEffect, useRef, useState } from "preact/hooks";
import { clock, day, millis } from "../time.ts";
import { show } from "../escape.ts";
import { theme } from "../theme.ts";
import { timeline } from "../store/timeline.ts";
import { useChanges } from "../store/changes.ts";

const kinds = [["added", "--ok"], ["changed", "--info"], ["removed", "--bad"]] as const;

/** draw draws the tallies between two sequences as stacked bars. */
function draw(canvas: HTMLCanvasElement, from: number, to: number, at: number) {
  const scale = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * scale);
  const height = Math.round(canvas.clientHeight * scale);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  if (!context || to < from) return;
  const style = getComputedStyle(canvas);
  context.clearRect(0, 0, width, height);
  const bar = Math.max(2 * scale, Math.min(12 * scale, width / (to - from + 1)));
  const count = Math.max(1, Math.floor(width / bar));
  const buckets = kinds.map(() => new Float64Array(count));
  for (const tally of timeline.tally) {
    if (tally.sequence < from || tally.sequence > to) continue;
    const bucket = Math.min(count - 1, Math.floor(((tally.sequence - from) / (to - from + 1)) * count));
    kinds.forEach(([kind], i) => buckets[i]![bucket]! += tally[kind]);
  }
  let most = 1;
  for (let i = 0; i < count; i++) most = Math.max(most, Math.sqrt(buckets.reduce((sum, one) => sum + one[i]!, 0)));
  for (let i = 0; i < count; i++) {
    const sum = buckets.reduce((all, one) => all + one[i]!, 0);
    if (sum === 0) continue;
    let y = height;
    const tall = Math.max(3 * scale, (Math.sqrt(sum) / most) * (height - 4 * scale));
    kinds.forEach(([, colour], k) => {
      const part = (buckets[k]![i]! / sum) * tall;
      context.fillStyle = style.getPropertyValue(colour);
      context.fillRect((i * width) / count, y - part, Math.max(1, width / count - scale), part);
      y -= part;
    });
  }
  const x = ((at - from + 0.5) / (to - from + 1)) * width;
  context.fillStyle = style.getPropertyValue("--text");
  context.fillRect(Math.max(0, Math.min(width - 2 * scale, x - scale)), 0, 2 * scale, height);
}

export function Scrub(props: { onScrub: (at: bigint) => void }) {
  useChanges(timeline, theme);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pulled, setPulled] = useState<number>();
  const timer = useRef<number | undefined>(undefined);
  const begin = timeline.begin;
  const to = Number(timeline.newest);
  const from = Math.min(Number(begin?.sequence ?? 0n) || Math.max(1, to), to);
  const at = pulled ?? Number(timeline.past?.at ?? timeline.newest);
  const colours = theme.now;
  useEffect(() => {
    if (canvas.current) draw(canvas.current, from, to, at);
  }, [from, to, at, colours, timeline.tally.length]);
  const top = (timeline.past?.window ?? timeline.live).newestRevision;
  const when = millis(begin?.time);
  return (
    <div class="scrub">
      <div>
        <canvas ref={canvas} aria-hidden="true" />
        <input
          type="range" min={from} max={to} step={1} value={at} disabled={to === 0} aria-label="Position in the history"
          aria-valuetext={top ? "revision " + top.revision + ", " + clock(millis(top.time)) : "no revisions"}
          onInput={(event) => {
            const value = Number(event.currentTarget.value);
            setPulled(value);
            window.clearTimeout(timer.current);
            timer.current = window.setTimeout(() => {
              setPulled(undefined);
              props.onScrub(BigInt(value));
            }, 120);
          }}
        />
      </div>
      <div class="ends">
        <span>
          {begin && begin.sequence > 0n && (
            <>
              History begins at revision <b>{String(begin.revision)}</b>
              {when !== undefined && ", " + day(when) + " " + clock(when).slice(-8)}: {show(begin.reason, 200)}
            </>
          )}
        </span>
        <span>{top && <>revision <b>{String(top.revision)}</b>, {clock(millis(top.time))}</>}</span>
      </div>
    </div>
  );
}
