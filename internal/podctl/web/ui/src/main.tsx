// The start of the page: the one-time token becomes a session, then the stream is opened and the frame is drawn.
import "@xterm/xterm/css/xterm.css";
import "uplot/dist/uPlot.min.css";
import "./theme.css";
import "./base.css";
import "./parts.css";
import { render } from "preact";
import { errorText, openSession, takeTicket } from "./api.ts";
import { App, Locked } from "./app.tsx";
import { stream } from "./store/stream.ts";
import "./theme.ts";

const root = document.getElementById("app")!;

async function start() {
  const ticket = takeTicket();
  if (!ticket) {
    root.replaceChildren();
    render(<Locked reason="" />, root);
    return;
  }
  try {
    await openSession(ticket);
  } catch (error) {
    root.replaceChildren();
    render(<Locked reason={errorText(error)} />, root);
    return;
  }
  root.replaceChildren();
  render(<App />, root);
  void stream.run();
}

void start();
