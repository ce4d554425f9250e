// The terminal of exec. This module, and xterm.js with it, is loaded when the first terminal is opened.
//
// The output of a container is hostile: xterm.js interprets it, but makes no links (OSC 8), doesn't touch the clipboard
// (OSC 52), and gets no commands about the window, its title or its size. The page loads none of its addons.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Terminal } from "@xterm/xterm";
import {
  type ExecAction, ExecClientMessageSchema, type ExecClientMessage, ExecServerMessageSchema,
} from "../../gen/podweb/v1/podweb_pb.ts";
import { sessionToken } from "../api.ts";

/** swallowed are the operating system commands that are ignored: titles, links, notifications, clipboard, downloads. */
const swallowed = [0, 1, 2, 7, 8, 9, 50, 51, 52, 99, 777, 1337];

export interface Opened {
  /** close ends the connection, and with it the command. */
  close(): void;
  focus(): void;
  theme(dark: boolean): void;
}

interface Config {
  element: HTMLElement;
  action: ExecAction;
  confirmation: string;
  onStart: (container: string) => void;
  onEnd: (text: string) => void;
  /** The user left the terminal by the keyboard. */
  onLeave: () => void;
}

const black = { background: "#10151b", foreground: "#e3e8ef", cursor: "#5cc3dc", selectionBackground: "#2d4a58" };

/** newTerminal returns a terminal that ignores what a container should not be able to do. */
export function newTerminal(): Terminal {
  const term = new Terminal({
    scrollback: 5000,
    fontFamily: 'ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace',
    fontSize: 13,
    cursorBlink: false,
    screenReaderMode: true,
    allowProposedApi: false,
    windowOptions: {},
    linkHandler: null,
    theme: black,
  });
  for (const number of swallowed) term.parser.registerOscHandler(number, () => true);
  // CSI t: window operations and reports. DCS, APC: none is needed.
  term.parser.registerCsiHandler({ final: "t" }, () => true);
  return term;
}

/** fit sets the terminal's size to that of its element. */
function fit(term: Terminal, element: HTMLElement) {
  const screen = element.querySelector<HTMLElement>(".xterm-screen");
  if (!screen || screen.clientWidth === 0) return;
  const width = screen.clientWidth / term.cols;
  const height = screen.clientHeight / term.rows;
  const style = getComputedStyle(element);
  const inner = (both: string, total: number) => total - parseFloat(both) * 2;
  const cols = Math.max(20, Math.min(500, Math.floor((inner(style.paddingLeft, element.clientWidth) - 14) / width)));
  const rows = Math.max(5, Math.min(200, Math.floor(inner(style.paddingTop, element.clientHeight) / height)));
  if (cols !== term.cols || rows !== term.rows) term.resize(cols, rows);
}

/** open runs a command in a terminal. */
export function open(config: Config): Opened {
  const term = newTerminal();
  term.open(config.element);
  fit(term, config.element);
  term.textarea?.setAttribute("aria-label", "Terminal. Control F6 leaves it.");
  const socket = new WebSocket("ws://" + location.host + "/exec", "podweb.exec.v1");
  socket.binaryType = "arraybuffer";
  let ended = false;
  let unread = 0;
  const send = (message: ExecClientMessage["message"]) => {
    // A container that doesn't read must not fill the browser's memory.
    if (socket.readyState !== WebSocket.OPEN || socket.bufferedAmount > 1 << 20) return;
    socket.send(toBinary(ExecClientMessageSchema, create(ExecClientMessageSchema, { message })));
  };
  const end = (text: string) => {
    if (ended) return;
    ended = true;
    term.options.disableStdin = true;
    config.onEnd(text);
    socket.close();
  };
  socket.onopen = () => send({
    case: "open",
    value: {
      $typeName: "podweb.v1.ExecOpen", session: sessionToken(), confirmation: config.confirmation, action: config.action,
      size: { $typeName: "podweb.v1.TerminalSize", width: term.cols, height: term.rows },
    },
  });
  socket.onclose = (event) => end(event.code === 1000 ? "The command has ended." : "The connection broke.");
  socket.onmessage = (event: MessageEvent<ArrayBuffer>) => {
    const { message } = fromBinary(ExecServerMessageSchema, new Uint8Array(event.data));
    switch (message.case) {
      case "started": config.onStart(message.value.container); break;
      case "stdout":
      case "stderr":
        unread += message.value.length;
        if (unread > 8 << 20) end("The output came too fast for this page: the terminal was closed.");
        else term.write(message.value, () => (unread -= message.value.length));
        break;
      case "end": end(message.value.error || "The command ended with exit code " + message.value.exitCode + "."); break;
    }
  };
  const encoder = new TextEncoder();
  const input = (text: string) => {
    const all = encoder.encode(text);
    for (let i = 0; i < all.length; i += 32768) send({ case: "stdin", value: all.subarray(i, i + 32768) });
  };
  term.onData(input);
  term.onBinary((text) => send({ case: "stdin", value: Uint8Array.from(text, (one) => one.charCodeAt(0)) }));
  term.onResize(({ cols, rows }) =>
    send({ case: "resize", value: { $typeName: "podweb.v1.TerminalSize", width: cols, height: rows } }));
  term.attachCustomKeyEventHandler((event) => {
    if (event.ctrlKey && event.key === "F6") {
      if (event.type === "keydown") config.onLeave();
      return false;
    }
    return true;
  });
  const observer = new ResizeObserver(() => fit(term, config.element));
  observer.observe(config.element);
  term.focus();
  return {
    close() {
      observer.disconnect();
      end("The terminal was closed.");
      term.dispose();
    },
    focus: () => term.focus(),
    theme: () => {},
  };
}
