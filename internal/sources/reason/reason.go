// Package reason tells whether two errors have one reason, so that a fault which lasts is told once, however often it is met.
//
// The sources that read over a network ask it before they tell of a failure. It is pure, and what it makes is a text to compare, never
// one to show.
package reason

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Of is the reason of an error: its text without what is another one at each try. That is addresses with their ports, the time of
// day, and numbers: how long something took, how much it was, or which stream it was on. Of a certificate that has expired it has the
// time when it did: the next one that expires is another reason. Nil has none.
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

// varies tells whether a word is another one at each try. Of NAME=VALUE the value counts.
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
