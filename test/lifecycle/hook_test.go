package lifecycle

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// The next container starts after the postStart hook of the one before has ended.
func TestPostStartGoesFirst(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: main
  args: [sleep]
  lifecycle: {postStart: {exec: {command: [/sample, seq, sleep, 500ms, ;, append, /log/order, hook]}}}
- {name: next, args: [seq, append, /log/order, next, ;, sleep]}`)
		p.awaitReady()
		p.awaitLines("order", "hook", "next")
	})
}

// A container whose postStart hook fails is killed and restarted.
func TestFailingPostStart(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: main
  args: [seq, append, /log/main, run, ;, on-term, /log/end, term]
  lifecycle: {postStart: {exec: {command: [/sample, seq, sleep, 2s, ;, fail-once, /log/failed, "3"]}}}`)
		p.awaitEvent("FailedPostStartHook")
		s := p.awaitReady()
		if s.of("main").RestartCount != 1 {
			t.Errorf("main was restarted %d times; want once", s.of("main").RestartCount)
		}
		p.awaitLines("main", "run", "run")
		p.wrote("end", "term")
	})
}

// The status has the reason why a container whose postStart hook fails doesn't run.
func TestFailingPostStartIsShown(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: main
  args: [sleep]
  lifecycle: {postStart: {exec: {command: [/sample, exit, "3"]}}}`)
		p.await("main waits because its hook has failed", func(s *state) bool { return s.waitsFor("main") == "PostStartHookError" })
		p.awaitEvent("Killing", "Container main failed postStart hook")
	})
}

// The preStop hook runs to its end before the container gets SIGTERM.
func TestPreStopGoesFirst(t *testing.T) {
	t.Parallel()
	visited := newVisitor(t, httptest.NewServer)
	for _, c := range []struct{ name, hook string }{
		{"exec", "exec: {command: [/sample, seq, sleep, 1s, ;, append, /log/end, hook]}"},
		{"http", fmt.Sprintf("httpGet: {host: 127.0.0.1, port: %d, path: /bye/NODE}", visited.port())},
		{"sleep", "sleep: {seconds: 1}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, latest, func(t *testing.T, b *bench) {
				p := b.run(t, `
terminationGracePeriodSeconds: 30
containers:
- name: main
  args: [on-term, /log/end, term]
  lifecycle: {preStop: {`+strings.Replace(c.hook, "NODE", b.Name, 1)+`}}`)
				p.awaitReady()
				began := time.Now()
				p.remove()
				p.awaitGone()
				took := time.Since(began)
				want := []string{"term"}
				if c.name == "exec" {
					want = []string{"hook", "term"}
				}
				p.wrote("end", want...)
				if c.name == "http" {
					if n := len(visited.asked("/bye/" + b.Name)); n != 1 {
						t.Errorf("the hook's path was requested %d times; want once", n)
					}
				} else if took < time.Second {
					t.Errorf("the pod was removed after %v; its hook takes a second", took)
				}
			})
		})
	}
}

// The preStop hook's time is part of the grace period. A hook that hangs is stopped, and the container still gets
// SIGTERM. A container that ignores it is killed at the end of the grace period.
func TestPreStopTakesOfTheGracePeriod(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
terminationGracePeriodSeconds: 3
containers:
- name: hangs
  args: [on-term, /log/end, term]
  lifecycle: {preStop: {exec: {command: [/sample, sleep]}}}
- name: deaf
  args: [ignore-term]
  lifecycle: {preStop: {sleep: {seconds: 1}}}`)
		p.awaitReady()
		began := time.Now()
		p.remove()
		p.awaitEvent("FailedPreStopHook")
		p.awaitGone()
		// 3 s, and the 2 s that are the minimum for a container after its hook.
		if took := time.Since(began); took < 3*time.Second || took > 3*time.Second+slack {
			t.Errorf("the pod was removed after %v; want the grace period, 3 s, and at most %v more", took, slack)
		}
		p.wrote("end", "term")
		states := p.states()
		if !slices.ContainsFunc(states, func(s state) bool { return s.ended("deaf") != nil && s.ended("deaf").ExitCode == 137 }) {
			t.Error("deaf wasn't killed")
		}
	})
}
