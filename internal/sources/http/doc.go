// Package http reads pods from a URL, again and again.
//
// It owns one URL: when it is asked, what of an answer is believed, and what it last had. It hands its full set to the function that
// it was given, and nobody calls it back. podconfigd makes one Source for each --manifest-url. A Source runs in the goroutine that
// calls Run; those of net/http that a request takes end with the request, as no connection outlives it. It never writes a header's
// value, a password, a value of the URL's query, or what a body says into an error, a log line or a name. A lasting problem is logged
// once, and another host to redirect to each time isn't another problem.
//
// # When it asks
//
// At once, and then every CheckFrequency, give or take a tenth, so that the nodes of a cluster don't ask together. After the k-th
// failure in a row it waits 2^k s, if that is less. A Retry-After on 429 and 503 is kept to, up to 5 minutes, if it asks for more.
//
// # What it believes
//
// Only an answer with status 200 that is whole: its length must be as announced, and gzip's checksum right. HTML (what begins with
// "<", whatever its type), an empty body, or one of which no item can be used is an error of the whole source, which changes no pod;
// to have none, a server sends a PodList with "items": [].
//
// JSON shows by itself that it is whole. YAML doesn't: a server may have read a file that was half written, and told the length of
// that. So what YAML adds counts at once, but what it leaves out or changes only when the next answer says the same, for which the
// source asks after a second; until then it isn't ready for the first time either. Answers that differ each time take nothing away,
// and the log says so; a comment is no difference. (After a restart there is nothing to compare with, and what it changes counts at
// once.) YAML of which the last item can't be used takes nothing away that it leaves out, however often it comes. YAML that announces
// no length at all is an error until two answers in a row say the same.
//
// An answer with 304 is believed if the request was conditional, by an ETag: Last-Modified doesn't tell all changes. It is so after
// a body of which all was good; never after one that couldn't be used, so that each poll tells the truth about the body that is there
// now. Every tenth request at least is unconditional: a server that keeps its ETag though the body changed is found out by then.
//
// # Items
//
// Each document of the body, and each item of a PodList, is an origin of its own, named URL#NAMESPACE/NAME (of a ConfigMap or Secret
// URL#KIND NAMESPACE/NAME), and is held by itself while it can't be used. Items that aren't there any more are gone, unless there is
// one whose name can't be read (URL#item N): it may be any of them, so they are held until it can. A document that is surely of another
// kind, as a Service that stands beside the pods, is ignored (URL#KIND NAMESPACE/NAME). With Config.Strict one item that can't be used
// holds all of the others as they were in the last body that was good throughout, and another kind is such an item.
//
// The URL in names and UIDs is Location(URL): a token in it may change without the pods becoming others.
//
// # Who gets the credentials
//
// Configured headers, the URL's user and password, and the client certificate are for the configured host and port only. A redirect
// to another one is followed without them, and so is all that comes after it, back to the own host too; one from https to http isn't
// followed at all; that from http to https on the same host keeps them.
package http
