package stream

import (
	"errors"
	"io"
	"testing"
)

// TestEndlessRevision: a lying podconfigd sends a SET, a chain of ops or empty ops without end. The stream ends at the
// bound. The bound is for one revision: any number of small ones, and heartbeats within one, pass.
func TestEndlessRevision(t *testing.T) {
	const limit, many = 64 << 10, 10_000
	for name, lie := range map[string]*message{
		"a SET without end":          op(0, update(opSet, "file", true, "a")),
		"ops without end":            op(0, adding("a")),
		"ops without pods, no end":   op(0, adding()),
		"a readiness without an end": op(0, update(opAdd, "file", false)),
	} {
		messages := make([]*message, many)
		for i := range messages {
			messages[i] = lie
		}
		f := &fake{messages: messages, err: io.EOF}
		got, err := open(t, Config{API: f, MaxRevisionBytes: limit}).Next()
		taken := many - len(f.messages)
		t.Logf("%s: ended after %d messages: %v", name, taken, err)
		if !errors.Is(err, ErrTooLarge) || taken > limit/itemBytes+1 {
			t.Errorf("%s: after %d messages Next returns %v and %v; want ErrTooLarge", name, taken, got, err)
		}
	}
	f := &fake{}
	for i := range 1000 {
		f.messages = append(f.messages, op(0, adding("a")), beat(0, false), op(uint64(i+1), adding("b")))
	}
	s := open(t, Config{API: f, MaxRevisionBytes: 4 << 10})
	for i := range 1000 {
		if _, err := s.Next(); err != nil {
			t.Fatalf("revision %d: Next fails with %v; want each small revision", i, err)
		}
	}
}
