// Routes are in the location's fragment: #/pods/NAMESPACE/NAME?tab=yaml. Nothing in a route is trusted: views compare its
// parts with what they have.
import { Changes } from "./store/changes.ts";

export interface Route { path: string[]; query: URLSearchParams }

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").slice(0, 8).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { path: parts[0] ? parts : ["pods"], query: new URLSearchParams(query) };
}

class RouteStore {
  readonly changes = new Changes();
  now = parse(location.hash);

  constructor() {
    window.addEventListener("hashchange", () => {
      this.now = parse(location.hash);
      this.changes.tell();
    });
  }
}

export const routes = new RouteStore();

/** href returns the fragment of a route. */
export function href(path: string[], query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (search ? "?" + search : "");
}

/** go opens a route, as a click on a link to it. */
export function go(path: string[], query: Record<string, string> = {}) {
  location.hash = href(path, query);
}

/** setQuery changes one part of the route's query without a new entry in the browser's history. */
export function setQuery(name: string, value: string) {
  const query = new URLSearchParams(routes.now.query);
  if (value) query.set(name, value);
  else query.delete(name);
  history.replaceState(null, "", href(routes.now.path, Object.fromEntries(query)));
  routes.now = { path: routes.now.path, query };
  routes.changes.tell();
}
