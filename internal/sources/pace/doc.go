// Package pace computes when a source that polls a server sends its next request, and limits how long one may take.
//
// It owns no state but that of one Pace: the failures in a row. Packages http and oci call it, each from the goroutine
// of its Run. Limit starts a goroutine, which ends with the request. Nothing depends on the time of day of this
// machine, except a Retry-After that is a date, on a response without a date of its own.
package pace
