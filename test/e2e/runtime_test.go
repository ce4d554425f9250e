package e2e

import (
	"fmt"
	"testing"

	"github.com/podstream/podstream/test/devnode"
)

// podexecd waits for a runtime that starts later, and a restart of the runtime restarts no container.
func TestRuntimeComesLaterAndRestarts(t *testing.T) {
	node := startNode(t, devnode.Containerd2)
	check(t, node.Runtime().Kill())
	r := newRig(t, node)
	r.write("web.yaml", manifest("web", "web: sleep"))
	r.awaitRevision(1)
	resp, err := r.Exec.ListPods(t.Context(), nil)
	if err != nil || len(resp.GetPods()) != 0 {
		t.Errorf("without a runtime podexecd lists %v, %v; want nothing", resp.GetPods(), err)
	}
	check(t, node.Runtime().Start())
	check(t, node.WaitReady(t.Context()))
	uid := r.awaitRunning("web")
	before := r.containers(uid)[0].GetId()

	check(t, node.Runtime().Kill())
	r.write("more.yaml", manifest("more", "main: sleep"))
	// The file is written again without a removal, because podconfigd might notice the removal.
	r.write("web.yaml", manifest("web", "web: sleep"))
	check(t, node.Runtime().Start())
	check(t, node.WaitReady(t.Context()))
	r.awaitRunning("more")
	r.eventually("the container is the same", func() error {
		if after := r.containers(uid); len(after) != 1 || after[0].GetId() != before {
			return fmt.Errorf("it was %s, and is now %v", before, after)
		}
		return nil
	})
}
