// Package http polls a URL for pods.
//
// It owns one URL: when it is requested, which responses are believed, and what it last had. It passes its full set
// to the function that it was given; it has no other output. podconfigd makes one Source for each --manifest-url. A
// Source runs in the goroutine that calls Run; the goroutines of net/http end with each request, as no connection
// outlives it. No error, log line or name has a header's value, a password, a value of the URL's query, or text of a
// body. A lasting problem is logged once; a redirect to another host each time isn't another problem.
//
// # Requests
//
// The first request is made at once, the others every CheckFrequency, plus or minus a tenth, so that the nodes of a
// cluster spread theirs. After the k-th failure in a row it waits 2^k s, if that is less. A longer Retry-After on 429
// and 503 is respected, up to 5 minutes.
//
// # Responses that are believed
//
// Only a complete response with status 200 is believed: its length must be as announced, and gzip's checksum right.
// HTML (what begins with "<", whatever its type), an empty body, or one of which no item can be used is an error of
// the whole source, which changes no pod; to have no pods, a server sends a PodList with "items": [].
//
// JSON shows by itself that it is complete. YAML doesn't: a server may have read a file that was half written, and
// sent its length then. So what YAML adds is used at once, but what it leaves out or changes only when the next
// response says the same, which is requested after a second; until then the source doesn't become ready for the first
// time, either. Responses that differ each time remove nothing, which is logged; a comment isn't a difference. (After
// a restart there is nothing to compare with, and changes are used at once.) YAML whose last item can't be used never
// removes what it leaves out. YAML without an announced length is an error until two responses in a row say the same.
//
// A response with 304 is believed if the request was conditional, by an ETag: Last-Modified doesn't show all changes.
// Requests are conditional after a body of which all was good; never after an unusable one, so that each poll reports
// the error of the current body. At least every tenth request is unconditional: that detects a server that keeps its
// ETag though the body changed.
//
// # Items
//
// Each document of the body, and each item of a PodList, is an origin, named URL#NAMESPACE/NAME (of a ConfigMap or
// Secret URL#KIND NAMESPACE/NAME), and is held by itself while it can't be used. Missing items are gone, unless there
// is an item whose name can't be read (URL#item N): it may be any of them, so they are held until it can be read. A
// document that is certainly of another kind, such as a Service beside the pods, is ignored (URL#KIND
// NAMESPACE/NAME). With Config.Strict one item that can't be used holds all others as they were in the last body that
// was good throughout, and another kind is such an item.
//
// The URL in names and UIDs is Location(URL): a token in it may change without the pods becoming others.
//
// # Credentials
//
// Configured headers, the URL's user and password, and the client certificate are sent to the configured host and
// port only. A redirect to another one is followed without them, and so are all later redirects, even back to the
// configured host. A redirect from https to http isn't followed; one from http to https on the same host keeps them.
package http
