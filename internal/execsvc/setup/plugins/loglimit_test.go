package plugins

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/logtest"
)

// TestRebound: a socket that is bound again and again has a bounded number of lines in the log, and others are logged as before.
func TestRebound(t *testing.T) {
	n := newNode(t, clocktesting.NewFakeClock(time.Now()))
	n.run(t)
	info := n.info(t, CSIPlugin, "a.example.com", "a.sock", "1.0.0")
	for range logBurst {
		p := n.start(t, "a-reg.sock", info)
		p.accepted(t)
		p.stop()
		n.want(t, "use a.example.com a.sock", "drop a.example.com a.sock", "close a.example.com a.sock")
	}
	if lines := strings.Count(n.log.String(), "a-reg.sock"); lines != logBurst {
		t.Errorf("%d lines about %d registrations; want %d", lines, logBurst, logBurst)
	}
	n.start(t, "b-reg.sock", n.info(t, CSIPlugin, "b.example.com", "b.sock", "1.0.0")).accepted(t)
	await(t, "the line about another socket", func() bool { return strings.Contains(n.log.String(), "b-reg.sock") })
}

// TestLogLimit: a limit ends with time, the next line has the number of those that were omitted, and the memory is bounded.
func TestLogLimit(t *testing.T) {
	var log logtest.Buffer
	c := clocktesting.NewFakeClock(time.Now())
	l := newLogLimit(slog.New(slog.NewTextHandler(&log, nil)), c)
	for i := range logBurst + 7 {
		l.of("a", false).Info("line", "number", i)
	}
	c.Step(logEvery)
	l.of("a", false).Info("after a while")
	l.of("a", false).Info("too soon")
	if text := log.String(); strings.Count(text, "msg=line") != logBurst || !strings.Contains(text, `"after a while" omitted=7`) || strings.Contains(text, "too soon") {
		t.Errorf("the log has\n%s", text)
	}
	for i := range 3 * maxLogged {
		l.of(fmt.Sprint("many", i), false).Info("one of many")
	}
	if lines := strings.Count(log.String(), "one of many"); len(l.paths) > maxLogged || lines > allBurst {
		t.Errorf("%d paths, %d lines", len(l.paths), lines)
	}
	c.Step(logEvery * logBurst)
	l.of("new", false).Info("a new path")
	if !strings.Contains(log.String(), "a new path") || len(l.paths) > 1 {
		t.Errorf("after a while there are %d paths", len(l.paths))
	}
}

// TestLogOfMany: sockets at ever new paths have a bounded number of lines, and keep no plugin, nor a path that is asked for later, from
// having its own.
func TestLogOfMany(t *testing.T) {
	var log logtest.Buffer
	c := clocktesting.NewFakeClock(time.Now())
	l := newLogLimit(slog.New(slog.NewTextHandler(&log, nil)), c)
	began := c.Now()
	for range 40 {
		for i := range maxLogged {
			l.of(fmt.Sprint("many", i), false).Info("one of many")
		}
		c.Step(logEvery)
	}
	for i := range 100 {
		l.of(fmt.Sprint("more", i), false).Info("one of many")
	}
	if lines := strings.Count(log.String(), "one of many"); lines > allBurst+int(c.Since(began)/allEvery) || len(l.paths) > maxLogged {
		t.Errorf("%d lines, %d paths", lines, len(l.paths))
	}
	for range logBurst + 1 {
		l.of("honest", true).Info("a plugin")
	}
	if lines := strings.Count(log.String(), "a plugin"); lines != logBurst {
		t.Errorf("a plugin has %d lines; want %d", lines, logBurst)
	}
}
