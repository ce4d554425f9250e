package http

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// documents returns YAML with a pod of each name, in the version that follows it.
func documents(nameVersion ...string) string {
	text := ""
	for i := 0; i < len(nameVersion); i += 2 {
		text += "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: " + nameVersion[i] +
			"\nspec:\n  containers:\n  - name: main\n    image: " + nameVersion[i+1] + "\n"
	}
	return text
}

// TestCutAnywhere: wherever YAML is cut off, one response removes no pod, and the next complete one corrects
// everything.
// everything.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	full := documents("a", "v1", "b", "v1", "c", "v1")
	g := give(t, Config{})
	g.settled(full, 3, "default/a=v1", "default/b=v1", "default/c=v1")
	for cut := 1; cut < len(full); cut++ {
		g.server.behave(ok(full[:cut]))
		g.poll()
		if g.serves() < 3 {
			t.Fatalf("cut after %d bytes, %d pods are served", cut, g.serves())
		}
		g.server.behave(ok(full))
		g.poll()
		g.body(full, 3, "default/a=v1", "default/b=v1", "default/c=v1")
	}
}

// TestSecondAnswer: what YAML removes counts with the second response, and what it adds with the first.
func TestSecondAnswer(t *testing.T) {
	t.Parallel()
	g := give(t, Config{})
	first := documents("web", "v1", "db", "v1")
	g.body(first, 2, "default/web=v1", "default/db=v1", "whole held")
	if g.merger.Sources()[0].Ready {
		t.Error("the source is ready, although there may be more pods")
	}
	g.body(first, 2, "default/web=v1", "default/db=v1")
	// About 20 s, without the duration of the request, and not the short pause before a second response.
	if !g.merger.Sources()[0].Ready || g.timer.wait <= 2*secondLook {
		t.Errorf("the source isn't ready, or asks again after %v", g.timer.wait)
	}
	more := documents("web", "v1", "db", "v1", "new", "v1")
	g.body(more, 3, "default/web=v1", "default/db=v1", "default/new=v1")
	if g.timer.wait <= 2*secondLook {
		t.Errorf("after an addition, the next poll is after %v", g.timer.wait)
	}
	next := documents("web", "v2", "new", "v1")
	g.body(next, 3, "default/web=v1", "default/new=v1", "default/db held", "whole held")
	if g.timer.wait != secondLook {
		t.Errorf("the second look is after %v", g.timer.wait)
	}
	// A failure in between changes nothing.
	g.server.behave(answering(500, ""))
	g.fails("status 500")
	if g.timer.wait <= secondLook { // About 2 s, without the duration of the request.
		t.Errorf("after a failure, the next poll is after %v", g.timer.wait)
	}
	// An answer with another time of day in a comment counts as equal.
	g.body("# 12:00:01\n"+next, 2, "default/web=v2", "default/new=v1")
	if g.log.Count("level=WARN") != 1 {
		t.Errorf("the log has\n%s", g.log)
	}
	// The removal is undone before it counted, so nothing changes.
	g.body(documents("web", "v3", "new", "v1"), 2, "default/web=v2", "default/new=v1", "whole held")
	g.body(next, 2, "default/web=v2", "default/new=v1")
}

// TestRestless: responses that differ each time remove nothing, and don't cause a request each second.
func TestRestless(t *testing.T) {
	t.Parallel()
	g := give(t, Config{})
	g.settled(documents("web", "v1", "db", "v1"), 2, "default/web=v1", "default/db=v1")
	var waits []time.Duration
	for i := range 6 {
		g.body(documents("web", fmt.Sprint("v", i+2)), 2, "default/web=v1", "default/db held", "whole held")
		waits = append(waits, g.timer.wait.Round(20*time.Second))
	}
	if want := []time.Duration{0, 20 * time.Second, 0, 20 * time.Second, 0, 20 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("the waits are about %v, want %v", waits, want)
	}
	if g.log.Count("Each response differs") != 1 || g.log.Count("level=WARN") != 1 {
		t.Errorf("the log has\n%s", g.log)
	}
}

// TestBadEnd: while the last document can't be used, others may have followed it, however often it is repeated.
func TestBadEnd(t *testing.T) {
	t.Parallel()
	g := give(t, Config{})
	g.settled(documents("web", "v1", "db", "v1", "old", "v1"), 3, "default/web=v1", "default/db=v1", "default/old=v1")
	cut := documents("web", "v1") + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: db}\nspec:\n"
	g.settled(cut, 3, "default/web=v1", "default/db held", "default/old held")
	set := g.body(cut, 3, "default/web=v1", "default/db held", "default/old held")
	if !isHeldFor(set.Origins[2], whyCut) || g.log.Count("missing=1") != 1 {
		t.Errorf("the finding is %+v; log:\n%s", set.Origins[2].Findings, g.log)
	}
	// A bad document before others isn't a cut.
	g.settled("---\napiVersion: v1\nkind: Pod\nmetadata: {name: db}\nspec:\n"+documents("web", "v1"), 2, "default/db held", "default/web=v1")
}

// TestEndlessYAML: YAML that ends with the connection is accepted when it is repeated once.
func TestEndlessYAML(t *testing.T) {
	t.Parallel()
	endless := func(text string) behaviour {
		return raw("HTTP/1.0 200 OK\r\nContent-Type: application/yaml\r\n\r\n" + text)
	}
	s := newServer(t, endless(documents("web", "v1", "db", "v1")))
	r := run(t, Config{URL: "http://" + s.addr})
	r.fails("doesn't tell how long it is")
	if r.timer.wait != secondLook {
		t.Errorf("the second look is after %v", r.timer.wait)
	}
	r.expect("default/web=v1", "default/db=v1")
	r.expect("default/web=v1", "default/db=v1")
	s.behave(endless(documents("web", "v1")))
	r.fails("doesn't tell how long it is")
	s.behave(endless(documents("web", "v1", "db", "v1")))
	r.fails("doesn't tell how long it is")
	s.behave(endless(documents("web", "v1")))
	r.fails("doesn't tell how long it is")
	r.expect("default/web=v1")
	if r.serves() != 1 {
		t.Errorf("%d pods are served", r.serves())
	}
}
