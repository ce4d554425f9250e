package podctl

import (
	"strings"
	"testing"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func exampleEvents() []*podexecv1.PodEvent {
	return append(stuckEvents(),
		podEvent("shop", "db", "", "Warning", "FailedSync", "two\nlines \x1b[2J", 1))
}

func TestEvents(t *testing.T) {
	for _, output := range []string{"table", "wide", "json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			n.busy(&busyPodexecd{events: exampleEvents()})
			if code := n.run(t.Context(), "events", "-o", output); code != exitOK || n.stderr.String() != "" {
				t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
			}
			n.golden("events."+output, n.stdout.String())
		})
	}
}

func TestEventsChosen(t *testing.T) {
	for args, want := range map[string]int{
		"": 3, "stuck": 2, "pod/stuck-node1": 2, "-n shop": 1, "-n shop -A": 3, "db -n default": 0, "nothing": 0,
		"-n shop,default": 3, "-n shop -n default": 3,
	} {
		n := newNode(t)
		n.busy(&busyPodexecd{events: exampleEvents()})
		code := n.run(t.Context(), append([]string{"events", "-o", "json"}, strings.Fields(args)...)...)
		if got := strings.Count(n.stdout.String(), `"reason": `); code != exitOK || got != want {
			t.Errorf("events %s: exit code %d, %d events; want %d", args, code, got, want)
		}
	}
	n := newNode(t)
	n.busy(&busyPodexecd{})
	if code := n.run(t.Context(), "events"); code != exitOK || n.stdout.String() != "" || n.stderr.String() != "podctl: no events found\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}

// A watch prints events as they happen. Ctrl-C ends it; an end by podexecd is a failure.
func TestEventsWatch(t *testing.T) {
	n := newNode(t)
	more := make(chan *podexecv1.PodEvent)
	n.busy(&busyPodexecd{events: stuckEvents()[:1], more: more})
	interrupt := n.start("events", "--watch")
	n.stdout.await(t, "Pulling")
	more <- stuckEvents()[1]
	n.stdout.await(t, "BackOff")
	if code := interrupt(); code != exitOK || n.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}

	n = newNode(t)
	n.busy(&busyPodexecd{more: more})
	close(more)
	if code := n.run(t.Context(), "events", "-w"); code != exitFailed || !strings.Contains(n.stderr.String(), "ended the stream") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}
