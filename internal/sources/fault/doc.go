// Package fault words the failures of requests to servers that aren't trusted. An error's text is the same each time the
// failure happens, so that a lasting one is logged once, and is fit for all callers: it has no secret, no address of this
// end, no quote of what the server sent, one line, and a bounded length.
//
// It owns nothing and runs nothing. Packages http and oci call it with the errors of net/http.
package fault
