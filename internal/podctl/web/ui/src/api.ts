// The calls to podctl. The session's token is a variable of this module: it is in no storage, and in no address.
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { WebService } from "../gen/podweb/v1/podweb_pb.ts";

let session = "";

const authorize: Interceptor = (next) => (request) => {
  if (session) request.header.set("Authorization", "Bearer " + session);
  return next(request);
};

export const client = createClient(WebService, createConnectTransport({
  baseUrl: location.origin,
  useBinaryFormat: true,
  interceptors: [authorize],
}));

/** takeTicket returns the one-time token of the address, and removes it from there. */
export function takeTicket(): string {
  const found = /^#token=([A-Za-z0-9_-]{1,512})$/.exec(location.hash);
  if (!found) return "";
  history.replaceState(null, "", location.pathname + "#/pods");
  return found[1]!;
}

/** openSession exchanges the one-time token for the session's. */
export async function openSession(ticket: string) {
  session = (await client.openSession({ ticket }, { timeoutMs: 10000 })).session;
}

/** sessionToken returns the token for the first message of a WebSocket. */
export function sessionToken(): string {
  return session;
}

/** isOver reports whether an error means that the session has ended: then nothing is tried again. */
export function isOver(error: unknown): boolean {
  return ConnectError.from(error).code === Code.Unauthenticated;
}

/** errorText returns an error as a sentence for the user. */
export function errorText(error: unknown): string {
  const known = ConnectError.from(error);
  if (known.code === Code.Unauthenticated) return "The session has ended.";
  if (known.code === Code.DeadlineExceeded) return "podctl web did not answer in time.";
  if (known.code === Code.Unknown && /fetch|network/i.test(known.rawMessage)) return "podctl web can't be reached.";
  return known.rawMessage || Code[known.code] || "unknown error";
}

/** call is the timeout of unary calls. */
export const call = { timeoutMs: 20000 };
