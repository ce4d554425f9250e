package devnode

import (
	"context"
	"testing"
)

// TestSim needs no root, so that it runs on machines without a container runtime.
func TestSim(t *testing.T) {
	node, err := Start(t.Context(), Config{Dir: t.TempDir(), Runtime: Sim, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	cri, err := connect(t.Context(), node.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close(context.Background())
	if sandboxes, err := cri.ListPodSandbox(t.Context(), nil); err != nil || len(sandboxes) > 0 {
		t.Errorf("sandboxes in a new node: %v, %v", sandboxes, err)
	}

	// As a runtime that another process started.
	second, err := Start(t.Context(), Config{Dir: t.TempDir(), Runtime: Endpoint, Endpoint: node.Endpoint(), SkipImages: true})
	if err != nil {
		t.Fatal(err)
	}
	if second.Endpoint() != node.Endpoint() || second.Runtime() != nil {
		t.Errorf("endpoint %s, process %v", second.Endpoint(), second.Runtime())
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := node.WaitReady(t.Context()); err != nil {
		t.Errorf("Close ended a runtime that the node hadn't started: %v", err)
	}
}
