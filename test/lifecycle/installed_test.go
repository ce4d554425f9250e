package lifecycle

import (
	"bytes"
	"net/http"
	"testing"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/podstream/podstream/test/devnode"
)

// TestInstalledContainerd is a pod's life on the machine's own containerd. Debian 12 has version 1.6, the oldest that is
// supported, which sends no events: a pod starts, serves a command and its logs, is adopted after podexecd's restart, is
// restarted after its process ends, and is removed.
func TestInstalledContainerd(t *testing.T) {
	t.Parallel()
	n := newNodeAPI(t, devnode.Installed)
	p := n.run(t, `
containers:
- {name: main, args: [seq, append, /log/main, run, ;, cat, /log/main, ;, sleep]}
- {name: other, args: [seq, append, /log/other, run, ;, sleep]}`)
	before := p.awaitReady()
	p.awaitLines("main", "run")
	p.awaitLines("other", "run")
	var stdout bytes.Buffer
	code, err := n.stream("websocket", n.url(n.of("exec", p, "main"), command("output", "cat", "/log/main")...), remotecommand.StreamOptions{Stdout: &stdout})
	if err != nil || code != 0 || stdout.String() != "run\n" {
		t.Errorf("a command: exit code %d, %v, stdout %q", code, err, &stdout)
	}
	if status, text := n.get(n.url(n.of("containerLogs", p, "main"))); status != http.StatusOK || text != "run\n" {
		t.Errorf("the logs: %d %q", status, text)
	}

	n.restartPodexecd(t, (*devnode.Process).Kill)
	n.kill(t, before.of("other"))
	p.awaitNow("other runs again", func(s *state) bool { return s.of("other").RestartCount == 1 && s.runs("other") })
	p.awaitLines("other", "run", "run")
	after := p.now()
	if was, is := before.of("main"), after.of("main"); is.ContainerID != was.ContainerID || is.RestartCount != 0 {
		t.Errorf("main was %+v, and is now %+v", was, is)
	}
	p.wrote("main", "run")
	p.remove()
	p.awaitGone()
}
