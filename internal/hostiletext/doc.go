// Package hostiletext has strings that an attacker may put into names, labels, log lines, messages and files, and finds
// the characters in an output that a terminal acts on or doesn't show.
//
// It is for tests: those of podctl's views, and those of the web page, which read testdata/strings.json themselves. It
// decides by Unicode's properties and not by package render, which it checks. It starts no goroutines.
package hostiletext
