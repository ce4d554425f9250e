package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
	shared "github.com/podstream/podstream/test/rig"
)

// patience is the time limit of every wait; the machine may be slow and busy.
const patience = 60 * time.Second

// rig is a pair of daemons on a node, for one test.
type rig struct {
	*shared.Rig
	t *testing.T
}

var rigs atomic.Int32

// newRig starts a pair of daemons with an empty manifest directory.
func newRig(t *testing.T, node *devnode.Node) *rig {
	t.Helper()
	started, err := shared.Start(node, fmt.Sprintf("n%d", rigs.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Rig: started, t: t}
	t.Cleanup(r.close)
	return r
}

// close removes all pods and checks that nothing is left of them.
func (r *rig) close() {
	for _, p := range []*devnode.Process{r.Podconfigd, r.Podexecd} {
		if r.t.Failed() {
			r.t.Logf("%s ends with:\n%s", p.Name, p.LogTail())
		}
	}
	if r.running(r.Podconfigd) && r.running(r.Podexecd) {
		_ = r.Clear()
		r.eventually("every pod is gone", r.empty)
	}
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) running(p *devnode.Process) bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// write renames a manifest into place.
func (r *rig) write(name, content string) {
	r.t.Helper()
	check(r.t, r.Write(name, content))
}

func (r *rig) remove(name string) {
	r.t.Helper()
	check(r.t, r.Remove(name))
}

// eventually polls until check succeeds, and fails the test if it doesn't within patience.
func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	r.within(patience, what, check)
}

func (r *rig) within(limit time.Duration, what string, check func() error) {
	r.t.Helper()
	if err := shared.Poll(limit, check); err != nil {
		r.t.Fatalf("not within %v: %s: %v\npodconfigd:\n%s\npodexecd:\n%s", limit, what, err, r.Podconfigd.LogTail(), r.Podexecd.LogTail())
	}
}

// observed returns the observed pod of the desired pod of that name (without the node's suffix).
func (r *rig) observed(name string) (*podexecv1.ObservedPod, *v1.PodStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	resp, err := r.Exec.GetPod(ctx, &podexecv1.GetPodRequest{
		Ref: &podconfigv1.PodRef{Name: name + "-" + r.Name}, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
	})
	if err != nil {
		return nil, nil, err
	}
	status := &v1.PodStatus{}
	if err := status.Unmarshal(resp.GetPod().GetProtobuf()); err != nil {
		return nil, nil, err
	}
	return resp.GetPod(), status, nil
}

// awaitRunning waits until the pod's phase is Running and all its containers run, and returns its UID.
func (r *rig) awaitRunning(name string) (uid string) {
	r.t.Helper()
	r.eventually("pod "+name+" runs", func() error {
		pod, status, err := r.observed(name)
		if err != nil {
			return err
		}
		if pod.GetPhase() != string(v1.PodRunning) {
			return fmt.Errorf("phase is %s (%s): %s", pod.GetPhase(), waiting(status), pod.GetLastError())
		}
		for _, c := range status.ContainerStatuses {
			if c.State.Running == nil {
				return fmt.Errorf("container %s doesn't run: %s", c.Name, waiting(status))
			}
		}
		uid = pod.GetRef().GetUid()
		return nil
	})
	return uid
}

func waiting(s *v1.PodStatus) string {
	var out []string
	for _, c := range s.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			out = append(out, c.Name+": "+w.Reason+": "+w.Message)
		}
	}
	return strings.Join(out, "; ")
}

// containers returns the CRI containers of this rig's pods with that UID, or all of the rig's containers if the
// UID is empty.
func (r *rig) containers(uid string) []*runtimeapi.Container {
	r.t.Helper()
	out, err := r.Containers(r.t.Context(), uid)
	check(r.t, err)
	return out
}

// empty returns nil if nothing is left of this rig's pods. It also works in cleanups, after the test's context
// has ended.
func (r *rig) empty() error { return r.Empty(context.WithoutCancel(r.t.Context())) }

func dial(t *testing.T, endpoint string) *grpc.ClientConn {
	t.Helper()
	conn, err := shared.Dial(endpoint)
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// manifest returns a pod with containers, each given as "name: args".
func manifest(name string, containers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  terminationGracePeriodSeconds: 2\n  containers:\n", name)
	for _, c := range containers {
		n, args, _ := strings.Cut(c, ": ")
		fmt.Fprintf(&b, "  - name: %s\n    image: %s\n    imagePullPolicy: Never\n    args: [%s]\n", n, devnode.SampleImage, args)
	}
	return b.String()
}
