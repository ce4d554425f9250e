// Cards shows many items as small cards in rows, of which only those in view are in the document. Like Grid it keeps the
// keyboard's focus itself, and names its active card.
import type { ComponentChildren } from "preact";
import { hint } from "../escape.ts";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props<T> {
  label: string;
  rows: readonly T[];
  keyOf: (row: T) => string;
  card: (row: T) => ComponentChildren;
  cardClass: (row: T) => string;
  full: (row: T) => string;
  selected: string | undefined;
  onOpen: (row: T) => void;
  empty: ComponentChildren;
  class?: string;
}

const width = 176;
const height = 50;
const gap = 6;

export function Cards<T>(props: Props<T>) {
  const { rows, keyOf } = props;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600, width: 900 });
  const [own, setOwn] = useState<string>();
  const current = own ?? props.selected;
  const active = current === undefined ? -1 : rows.findIndex((row) => keyOf(row) === current);
  const measure = () => {
    const element = box.current;
    if (element) setView({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    measure();
    return () => observer.disconnect();
  }, []);
  const inner = view.width - 2 * gap;
  const across = Math.max(1, Math.floor((inner + gap) / (width + gap)));
  const each = (inner - (across - 1) * gap) / across;
  const down = Math.ceil(rows.length / across);
  const first = Math.max(0, Math.floor(view.top / (height + gap)) - 2);
  const last = Math.min(down, Math.ceil((view.top + view.height) / (height + gap)) + 2);
  const keyed = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(view.height / (height + gap)) - 1) * across;
    const to = {
      ArrowRight: active + 1, l: active + 1, ArrowLeft: active - 1, ArrowDown: active < 0 ? 0 : active + across, j: active < 0 ? 0 : active + across,
      ArrowUp: active - across, k: active - across, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1,
    }[event.key];
    if (to !== undefined) {
      const index = Math.max(0, Math.min(rows.length - 1, to));
      const row = rows[index];
      const element = box.current;
      if (!row || !element) return;
      setOwn(keyOf(row));
      const top = Math.floor(index / across) * (height + gap);
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + height + 2 * gap > element.scrollTop + element.clientHeight) element.scrollTop = top + height + 2 * gap - element.clientHeight;
    } else if (event.key === "Enter" && active >= 0) {
      props.onOpen(rows[active]!);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const lines = [];
  for (let y = first; y < last; y++) {
    lines.push(
      <div role="row" aria-rowindex={y + 1} key={y}>
        {rows.slice(y * across, (y + 1) * across).map((row, x) => {
          const index = y * across + x;
          return (
            <div
              key={keyOf(row)} id={id + "-" + index} role="gridcell" aria-selected={index === active} title={hint(props.full(row))}
              class={"card " + props.cardClass(row)}
              style={{ left: gap + x * (each + gap) + "px", top: gap + y * (height + gap) + "px", width: each + "px", height: height + "px" }}
              onClick={() => {
                setOwn(keyOf(row));
                props.onOpen(row);
              }}
            >
              {props.card(row)}
            </div>
          );
        })}
      </div>,
    );
  }
  return (
    <div
      ref={box} class={"grid panel " + (props.class ?? "")} role="grid" aria-label={props.label} aria-readonly="true" tabIndex={0}
      aria-rowcount={down} aria-colcount={across} onScroll={measure} onKeyDown={keyed}
      aria-activedescendant={active >= first * across && active < last * across ? id + "-" + active : undefined}
    >
      <div role="rowgroup" class="cards" style={{ height: down * (height + gap) + gap + "px" }}>{lines}</div>
      {rows.length === 0 && <div class="empty" role="row"><div role="gridcell">{props.empty}</div></div>}
    </div>
  );
}
