// Grid is a table of any number of rows, of which only those in view are in the document. The grid itself has the
// keyboard's focus and names its active row (aria-activedescendant), so that the focus stays when rows come and go.
import type { ComponentChildren } from "preact";
import { hint } from "../escape.ts";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Column is one column of a Grid. */
export interface Column<T> {
  title: string;
  /** The CSS grid track: "80px", "minmax(120px, 2fr)". */
  width: string;
  num?: boolean;
  cell: (row: T) => ComponentChildren;
  /** Unset: the column can't be sorted by. */
  compare?: (a: T, b: T) => number;
  /** The full text, for a cell that may be cut. */
  full?: (row: T) => string;
}

/** Sort is the column by which a Grid is sorted. */
export interface Sort { column: number; down: boolean }

interface Props<T> {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  keyOf: (row: T) => string;
  selected?: string | undefined;
  onSelect?: (row: T) => void;
  onOpen?: (row: T) => void;
  rowClass?: (row: T) => string;
  empty: ComponentChildren;
  sort?: Sort | undefined;
  onSort?: (sort: Sort) => void;
  rowHeight?: number;
  titles?: boolean;
  class?: string;
  /** Stay at the last row as rows are added, while the last row is in view. */
  follow?: boolean;
  /** When it changes, the first rows are shown. */
  anchor?: string;
  /** Called when the grid leaves or reaches its end. */
  onEnd?: (atEnd: boolean) => void;
}

const spare = 6;

/** sorted returns rows in the order of sort; equal rows keep their order. */
export function sorted<T>(rows: readonly T[], columns: readonly Column<T>[], sort: Sort | undefined): readonly T[] {
  const compare = sort && columns[sort.column]?.compare;
  if (!compare) return rows;
  const way = sort.down ? -1 : 1;
  return [...rows].sort((a, b) => way * compare(a, b));
}

export function Grid<T>(props: Props<T>) {
  const { rows, columns, keyOf } = props;
  const height = props.rowHeight ?? 27;
  const titles = props.titles ?? true;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [own, setOwn] = useState<string>();
  const atEnd = useRef(true);
  const selected = props.selected ?? own;
  const active = selected === undefined ? -1 : rows.findIndex((row) => keyOf(row) === selected);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    const end = element.scrollTop + element.clientHeight >= element.scrollHeight - height;
    if (end !== atEnd.current) {
      atEnd.current = end;
      props.onEnd?.(end);
    }
    setView({ top: element.scrollTop, height: element.clientHeight });
  };
  useEffect(() => {
    const element = box.current;
    if (!element || !props.follow) return;
    element.scrollTop = element.scrollHeight;
  });

  useLayoutEffect(() => {
    if (box.current) box.current.scrollTop = 0;
  }, [props.anchor]);

  const head = titles ? 28 : 0;
  const reveal = (index: number) => {
    const element = box.current;
    if (!element) return;
    const top = index * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height + head > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + height + head - element.clientHeight;
    }
  };
  const move = (index: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (!row) return;
    setOwn(keyOf(row));
    props.onSelect?.(row);
    reveal(rows.indexOf(row));
  };
  const keyed = (event: KeyboardEvent) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(view.height / height) - 2);
    const to = {
      ArrowDown: active + 1, j: active + 1, ArrowUp: Math.max(0, active - 1), k: Math.max(0, active - 1),
      PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1,
    }[event.key];
    if (to !== undefined) move(to);
    else if (event.key === "Enter" && active >= 0 && props.onOpen) props.onOpen(rows[active]!);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const first = Math.max(0, Math.min(rows.length, Math.floor(view.top / height)) - spare);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + spare);
  const tracks = columns.map((column) => column.width).join(" ");
  const shown = [];
  for (let i = first; i < last; i++) {
    const row = rows[i]!;
    const key = keyOf(row);
    shown.push(
      <div
        key={key} id={id + "-" + i} role="row" aria-rowindex={i + (titles ? 2 : 1)} aria-selected={i === active}
        class={"line" + (props.onOpen ? " opens" : "") + (props.rowClass ? " " + props.rowClass(row) : "")}
        style={{ top: i * height + "px", height: height + "px", gridTemplateColumns: tracks }}
        onClick={() => {
          setOwn(key);
          props.onSelect?.(row);
          props.onOpen?.(row);
        }}
      >
        {columns.map((column) => (
          <div role="gridcell" class={column.num ? "num" : ""} title={hint(column.full?.(row))}>{column.cell(row)}</div>
        ))}
      </div>,
    );
  }
  return (
    <div
      ref={box} class={"grid panel " + (props.class ?? "")} role="grid" aria-label={props.label} tabIndex={0}
      aria-rowcount={rows.length + (titles ? 1 : 0)} aria-readonly="true"
      aria-activedescendant={active >= first && active < last ? id + "-" + active : undefined}
      onScroll={scrolled} onKeyDown={keyed}
    >
      {titles && (
        <div role="rowgroup" class="titles">
          <div role="row" aria-rowindex={1} class="line titles" style={{ gridTemplateColumns: tracks }}>
            {columns.map((column, i) => (
              <div
                role="columnheader" class={column.num ? "num" : ""}
                aria-sort={props.sort?.column !== i ? undefined : props.sort.down ? "descending" : "ascending"}
              >
                {column.compare && props.onSort
                  ? (
                    <button
                      type="button"
                      onClick={() => props.onSort?.({ column: i, down: props.sort?.column === i && !props.sort.down })}
                    >
                      {column.title}
                      <span aria-hidden="true">{props.sort?.column === i ? (props.sort.down ? " ↓" : " ↑") : ""}</span>
                    </button>
                  )
                  : column.title}
              </div>
            ))}
          </div>
        </div>
      )}
      <div class="rows" role="rowgroup" style={{ height: rows.length * height + "px" }}>{shown}</div>
      {rows.length === 0 && <div class="empty" role="row"><div role="gridcell">{props.empty}</div></div>}
    </div>
  );
}
