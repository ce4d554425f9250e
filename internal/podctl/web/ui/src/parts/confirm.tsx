// Confirm asks before something is changed: podctl says what would be done, the user agrees, and podctl does it once.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { useEffect, useState } from "preact/hooks";
import type { ActionSchema, ActResponse } from "../../gen/podweb/v1/podweb_pb.ts";
import { announce } from "./announce.tsx";
import { call, client, errorText } from "../api.ts";
import { Dialog } from "./dialog.tsx";
import { go } from "../routes.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";

interface Props {
  title: string;
  verb: string;
  danger?: boolean;
  action: MessageInitShape<typeof ActionSchema>;
  onClose: () => void;
  onDone?: (answer: ActResponse) => void;
  /** Called with the confirmation instead of Act, for exec. */
  onConfirmed?: (confirmation: string) => void;
}

export function Confirm(props: Props) {
  const [state, set] = useState<{ confirmation?: string; lines: string[]; error?: string; done?: boolean; revision?: bigint; busy?: boolean }>({ lines: [] });
  useEffect(() => {
    const abort = new AbortController();
    client.prepare({ action: props.action }, { ...call, signal: abort.signal }).then(
      (answer) => set({ confirmation: answer.confirmation, lines: answer.lines }),
      (error) => {
        if (abort.signal.aborted) return;
        stream.end(error);
        set({ lines: [], error: errorText(error) });
      });
    return () => abort.abort();
  }, []);
  const act = async () => {
    const confirmation = state.confirmation;
    if (!confirmation) return;
    if (props.onConfirmed) {
      props.onConfirmed(confirmation);
      return;
    }
    set({ ...state, busy: true });
    try {
      const answer = await client.act({ action: props.action, confirmation }, { timeoutMs: 60000 });
      set({ lines: answer.lines, done: true, revision: answer.revision });
      announce(answer.lines.map((line) => show(line, 200)).join(" "));
      props.onDone?.(answer);
    } catch (error) {
      stream.end(error);
      set({ lines: [], error: errorText(error) });
    }
  };
  const openTimeline = () => {
    props.onClose();
    go(["timeline"]);
  };
  return (
    <Dialog
      title={state.done ? "Done" : props.title} onClose={props.onClose}
      foot={!state.done
        ? (
          <button
            type="button" class={"button " + (props.danger ? "danger" : "primary")} onClick={act} disabled={!state.confirmation || state.busy}
          >
            {props.verb}
          </button>
        )
        : state.revision ? <button type="button" class="button" onClick={openTimeline}>Open the timeline</button> : null}
    >
      <div role="status" class="asked">
        {state.error
          ? <p class="tag bad whole">{show(state.error, 2000)}</p>
          : state.lines.length > 0
            ? <ul class="plain">{state.lines.slice(0, 200).map((line) => <li>{show(line, 1000)}</li>)}</ul>
            : <p class="muted">{state.busy ? "Working…" : "podctl is asked what this does…"}</p>}
        {state.revision ? <p>Published in revision {String(state.revision)}.</p> : null}
      </div>
    </Dialog>
  );
}
