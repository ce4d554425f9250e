// Package simnode runs a simulated container runtime for a test, and connects to it as podexecd does.
//
// It is for tests of packages that use CRI. Everything that New starts ends with the test.
package simnode

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

// Fault may block or fail a call of a method. It is called by several goroutines.
type Fault func(ctx context.Context, method string) error

// Node is a simulated container runtime on a real socket.
type Node struct {
	Server *simruntime.Server
	// CRI and Images are podexecd's clients of the runtime.
	CRI    internalapi.RuntimeService
	Images internalapi.ImageManagerService

	t *testing.T

	mu    sync.Mutex
	fault Fault
}

// New starts a Node. The Fault of cfg, if there is one, is called before the one of SetFault.
func New(t *testing.T, cfg simruntime.Config) *Node {
	t.Helper()
	n := &Node{t: t}
	first := cfg.Fault
	cfg.Fault = func(ctx context.Context, method string, req any) error {
		if first != nil {
			if err := first(ctx, method, req); err != nil {
				return err
			}
		}
		return n.call(ctx, method)
	}
	n.Server = simruntime.New(cfg)
	endpoint := simtest.Serve(t, n.Server)
	n.CRI, n.Images = simtest.Runtime(t, endpoint), simtest.Images(t, endpoint)
	return n
}

// SetFault sets the fault of all following calls. Nil means none.
func (n *Node) SetFault(fault Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = fault
}

// heldPatience is how long a test waits for a call that it holds.
const heldPatience = time.Minute

// Hold sets a fault that blocks the calls of a method, after the first few, until release is called. Held waits for the
// first blocked call, and ends the test if there is none within a minute.
func (n *Node) Hold(t testing.TB, method string, few int32) (held, release func()) {
	began, free := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(began) })
	var calls atomic.Int32
	n.SetFault(func(ctx context.Context, called string) error {
		if called != method || calls.Add(1) <= few {
			return nil
		}
		tell()
		select {
		case <-free:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	held = func() {
		t.Helper()
		select {
		case <-began:
		case <-time.After(heldPatience):
			t.Fatalf("no call of %s within %v", method, heldPatience)
		}
	}
	return held, sync.OnceFunc(func() { close(free) })
}

func (n *Node) call(ctx context.Context, method string) error {
	n.mu.Lock()
	fault := n.fault
	n.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx, method)
}

// Left returns how many sandboxes and containers the runtime has, those that ended too.
func (n *Node) Left() (sandboxes, containers int) {
	n.t.Helper()
	b, err := n.CRI.ListPodSandbox(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	c, err := n.CRI.ListContainers(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	return len(b), len(c)
}

// Container returns a container of an image that is present. The runtime runs args as its script.
func Container(name string, args ...string) v1.Container {
	return v1.Container{
		Name: name, Image: "localhost/sample:1", ImagePullPolicy: v1.PullIfNotPresent, Args: args,
		TerminationMessagePath: v1.TerminationMessagePathDefault, TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
}
