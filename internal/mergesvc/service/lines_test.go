package service_test

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestLinesOfOneIdentity: an identity whose streams connect and disconnect all the time produces a bounded
// number of log lines, and one line in each interval with the number of omitted ones. Other identities and
// owners aren't limited.
func TestLinesOfOneIdentity(t *testing.T) {
	const streams = 40
	c, log := &sweepClock{clocktest.New()}, &logtest.Buffer{}
	n := start(t, options{clock: c, service: func(cfg *service.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	}})
	n.sweeping()
	comeAndGo := func(n *node, count int) {
		for range count {
			s := n.watch(reference(nil))
			s.want("synced")
			s.cancel()
		}
		until(t, "the streams are gone", func() bool { return len(n.consumers()) == 0 })
	}
	restless := n.as(monitor)
	comeAndGo(restless, streams)
	if got := log.Count("identity=monitor"); got != 30 {
		t.Errorf("%d streams of an identity have logged %d lines; want 30", streams, got)
	}
	comeAndGo(n.as(access.Caller{Identity: "other", Role: access.Consumer}), 2)
	comeAndGo(n, streams)
	if got := log.Count("identity=other"); got != 4 {
		t.Errorf("another's two streams have logged %d lines; want 4", got)
	}
	if got := log.Count("identity=uid:0"); got != 2*streams {
		t.Errorf("root's %d streams have logged %d lines; want all", streams, got)
	}
	c.sweep(59 * time.Second)
	if got := log.Count("leftOut"); got != 0 {
		t.Errorf("within the first minute %d lines report omitted lines; want none", got)
	}
	c.sweep(2 * time.Second)
	c.sweep(time.Hour)
	until(t, "one line tells what was left out", func() bool { return log.Count("leftOut") == 1 })
	if got := log.Count(`identity=monitor leftOut=`) + log.Count(`consumer is gone\"`) + log.Count(`consumer is synced\"`); got != 3 {
		t.Errorf("the line doesn't name the identity and both kinds of lines:\n%s", log)
	}
	comeAndGo(restless, 1)
	if got := log.Count("identity=monitor"); got != 30+1+2 {
		t.Errorf("in its next minute the identity has logged up to %d lines; want 2 more", got)
	}
}

// TestRefusalsAreLoggedOnce: repeated reports of a consumer about a pod are logged when they change.
func TestRefusalsAreLoggedOnce(t *testing.T) {
	log := &logtest.Buffer{}
	n := start(t, options{service: func(cfg *service.Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) }})
	refusal := func(uid, reason string) *podconfigv1.PodError {
		return &podconfigv1.PodError{Ref: &podconfigv1.PodRef{Uid: uid, Name: uid}, Reason: reason, Message: "at " + time.Now().String()}
	}
	report := func(what string, lines int, errs ...*podconfigv1.PodError) {
		t.Helper()
		before := log.Count("consumer refused")
		wantCode(t, what, n.report("agent", applied, errs...), codes.OK)
		if got := log.Count("consumer refused") - before; got != lines {
			t.Errorf("%s is logged in %d lines; want %d", what, got, lines)
		}
	}
	report("a refusal", 1, refusal("a", "PortConflict"))
	report("the same", 0, refusal("a", "PortConflict"))
	report("another reason", 1, refusal("a", "OutOfcpu"))
	report("another pod beside it", 1, refusal("a", "OutOfcpu"), refusal("b", "OutOfcpu"))
	report("none", 0)
	report("the first again", 1, refusal("a", "PortConflict"))
	var many []*podconfigv1.PodError
	for i := range 300 {
		many = append(many, refusal(string(rune('A'+i%26))+string(rune('a'+i/26)), "OutOfcpu"))
	}
	report("a crowd", 17, many...)
	report("the same crowd", 0, many...)
	wantCode(t, "a rejection", n.report("agent", rejected, many...), codes.OK)
	wantCode(t, "the same rejection", n.report("agent", rejected, many...), codes.OK)
	if got := log.Count("rejected a revision"); got != 1 {
		t.Errorf("the rejection of one revision is logged %d times; want once", got)
	}
}
