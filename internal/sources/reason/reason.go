// Package reason compares the reasons of errors, so that a lasting fault is reported once, however often it occurs.
//
// The sources that read over a network use it before they report a failure. It is pure; its result is a text to
// compare, never one to show.
package reason

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Of returns the reason of an error: its text without what differs at each attempt. That is addresses with their
// ports, the time of day, and numbers: how long something took, how large it was, or which stream it was on. It keeps
// the time at which a certificate expired: the next one that expires is another reason. The reason of nil is empty.
func Of(err error) string {
	if err == nil {
		return ""
	}
	words := strings.Fields(err.Error())
	before := ""
	for i, word := range words {
		if core := strings.Trim(word, `,;:."'()`); varies(core, before) {
			words[i] = strings.Replace(word, core, "#", 1)
		}
		before = word
	}
	return strings.Join(words, " ")
}

// varies reports whether a word differs at each attempt. Of NAME=VALUE the value decides.
func varies(word, before string) bool {
	if _, value, ok := strings.Cut(word, "="); ok {
		word = value
	}
	if _, err := time.Parse(time.RFC3339, word); err == nil {
		return before != "after" && before != "before"
	}
	if _, err := time.ParseDuration(word); err == nil {
		return true
	}
	if _, err := strconv.ParseUint(word, 10, 64); err == nil {
		return true
	}
	for end := range strings.SplitSeq(word, "->") {
		if !isAddress(end) {
			return false
		}
	}
	return true
}

func isAddress(text string) bool {
	if _, err := netip.ParseAddrPort(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(text)
	return err == nil
}
