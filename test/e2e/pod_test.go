package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// A manifest is added, edited and deleted: a user's first steps.
func TestManifestRunsIsEditedAndGoes(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		r := newRig(t, node)
		stream := r.watch(&podconfigv1.WatchPodUpdatesRequest{})
		stream.await("SYNCED")

		r.write("web.yaml", manifest("web", `web: print, "first version"`, "side: sleep"))
		added := stream.await("ADD web")
		text := protojson.Format(added.pods[0])
		for _, want := range []string{`"kind"`, `"Pod"`, `"first version"`, devnode.SampleImage, `"side"`, `"terminationGracePeriodSeconds"`} {
			if !strings.Contains(text, want) {
				t.Errorf("the ADD doesn't show %s:\n%s", want, text)
			}
		}
		first := r.awaitRunning("web")
		if n := len(r.containers(first)); n != 2 {
			t.Errorf("%d containers in the runtime, want 2", n)
		}
		r.eventually("the log is where the kubelet has it", func() error {
			return fileContains(r.Path("log", "pods", fmt.Sprintf("default_web-%s_%s", r.Name, first), "web", "0.log"), "first version")
		})
		r.eventually("a link leads to it", func() error {
			links, err := filepath.Glob(r.Path("log", "containers", fmt.Sprintf("web-%s_default_web-*.log", r.Name)))
			if err == nil && len(links) != 1 {
				err = fmt.Errorf("the links are %v", links)
			}
			return err
		})

		r.write("web.yaml", manifest("web", `web: print, "second version"`, "side: sleep"))
		removed, readded := stream.await("REMOVE web"), stream.await("ADD web")
		if removed.revision != readded.revision {
			t.Errorf("REMOVE in revision %d and ADD in %d: an edit is one revision (G4)", removed.revision, readded.revision)
		}
		r.eventually("the edited pod runs", func() error {
			pod, _, err := r.observed("web")
			if err != nil {
				return err
			}
			if pod.GetRef().GetUid() == first || pod.GetPhase() != string(v1.PodRunning) {
				return fmt.Errorf("uid %s, phase %s", pod.GetRef().GetUid(), pod.GetPhase())
			}
			return nil
		})
		second := r.awaitRunning("web")
		r.eventually("nothing is left of the first version", func() error {
			if n := len(r.containers(first)); n > 0 {
				return fmt.Errorf("%d containers", n)
			}
			return nil
		})

		gone := time.Now()
		r.remove("web.yaml")
		stream.await("REMOVE web")
		// The pod's grace period is 2 s. On an idle machine, everything is gone two seconds later. Less than 30
		// s shows that it didn't depend on a relist.
		r.within(20*time.Second, "containers, sandbox, logs and directories are gone soon after the grace period", r.empty)
		t.Logf("pod %s was gone %v after its manifest", second, time.Since(gone).Round(time.Millisecond))
	})
}

// A pod's files in an emptyDir stay while its containers restart, and are removed with the pod. A hostPath
// belongs to the node.
func TestVolumes(t *testing.T) {
	node := startNode(t, devnode.Containerd2)
	r := newRig(t, node)
	host := r.Path("host")
	if err := os.MkdirAll(host, 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("vol.yaml", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: vol}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  containers:
  - name: a
    image: %[1]s
    imagePullPolicy: Never
    args: [write, /scratch/x, from-a]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  - name: b
    image: %[1]s
    imagePullPolicy: Never
    args: [write, /host/x, from-b]
    volumeMounts: [{name: host, mountPath: /host}]
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: host, hostPath: {path: %[2]s, type: Directory}}
`, devnode.SampleImage, host))
	r.eventually("b has written to the node", func() error { return fileContains(filepath.Join(host, "x"), "from-b") })
	r.remove("vol.yaml")
	r.eventually("the pod is gone", r.empty)
	if err := fileContains(filepath.Join(host, "x"), "from-b"); err != nil {
		t.Errorf("a file on a hostPath must stay after the pod is removed: %v", err)
	}
}

// Containers that exit are restarted according to their restart policy.
func TestRestartPolicies(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		r := newRig(t, node)
		r.write("never.yaml", withPolicy("Never", manifest("never", "main: exit, '0'")))
		r.write("failed.yaml", withPolicy("Never", manifest("failed", "main: exit, '3'")))
		r.write("crash.yaml", manifest("crash", "main: exit, '1'"))
		r.write("init.yaml", strings.Replace(manifest("init", "main: sleep"), "  containers:\n",
			"  initContainers:\n  - {name: first, image: "+devnode.SampleImage+", imagePullPolicy: Never, args: [exit, '0']}\n  containers:\n", 1))
		r.awaitPhase("never", v1.PodSucceeded)
		r.awaitPhase("failed", v1.PodFailed)
		r.awaitRunning("init")
		r.eventually("the crashing container is restarted, then waits", func() error {
			_, status, err := r.observed("crash")
			if err != nil {
				return err
			}
			if len(status.ContainerStatuses) == 0 {
				return fmt.Errorf("nothing has been observed yet")
			}
			c := status.ContainerStatuses[0]
			if c.RestartCount < 1 || c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" {
				return fmt.Errorf("restarts %d, state %+v", c.RestartCount, c.State)
			}
			return nil
		})
		if _, status, err := r.observed("failed"); err != nil || status.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
			t.Errorf("exit code of a failed pod: %v, %v; want 3", status, err)
		}
	})
}

// Another agent's sandbox is neither shown nor changed.
func TestForeignSandboxIsLeftAlone(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		other, r := newRig(t, node), newRig(t, node)
		other.write("web.yaml", manifest("web", "web: sleep"))
		uid := other.awaitRunning("web")
		before := other.containers(uid)[0].GetId()
		// A pod of r is created and removed, with housekeeping and the removal of pods that aren't desired.
		r.write("mine.yaml", manifest("mine", "mine: sleep"))
		r.awaitRunning("mine")
		r.remove("mine.yaml")
		r.eventually("r's pod is gone", r.empty)
		r.eventually("r lists nothing", func() error {
			resp, err := r.Exec.ListPods(t.Context(), nil)
			if err == nil && len(resp.GetPods()) != 0 {
				err = fmt.Errorf("it lists %v", resp.GetPods())
			}
			return err
		})
		if after := other.containers(uid); len(after) != 1 || after[0].GetId() != before {
			t.Errorf("the other agent's containers are %v; want only %s", after, before)
		}
	})
}

func (r *rig) awaitPhase(name string, phase v1.PodPhase) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("pod %s is %s", name, phase), func() error {
		pod, status, err := r.observed(name)
		if err != nil {
			return err
		}
		if pod.GetPhase() != string(phase) {
			return fmt.Errorf("phase is %s (%s): %s", pod.GetPhase(), waiting(status), pod.GetLastError())
		}
		return nil
	})
}

func withPolicy(policy, manifest string) string {
	return strings.Replace(manifest, "spec:\n", "spec:\n  restartPolicy: "+policy+"\n", 1)
}

func fileContains(path, want string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), want) {
		return fmt.Errorf("%s doesn't contain %q", path, want)
	}
	return nil
}

// stream is one consumer of WatchPodUpdates, without package client.
type stream struct {
	t      *testing.T
	ops    chan op
	cancel context.CancelFunc
}

// op is one op of one revision.
type op struct {
	// text is the op and the pods' names without the node's suffix: "ADD web", or "SYNCED".
	text     string
	revision uint64
	pods     []*podconfigv1.Pod
}

func (r *rig) watch(req *podconfigv1.WatchPodUpdatesRequest) *stream {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	s := &stream{t: r.t, ops: make(chan op, 1000), cancel: cancel}
	call, err := r.Config.WatchPodUpdates(ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(s.ops)
		var pending []op
		for {
			msg, err := call.Recv()
			if err != nil {
				return
			}
			switch {
			case msg.GetUpdate() != nil:
				pending = append(pending, op{text: describe(r, msg.GetUpdate()), pods: msg.GetUpdate().GetPods()})
			case msg.GetSynced() != nil:
				pending = append(pending, op{text: "SYNCED"})
			}
			if msg.GetCursor() == nil {
				continue
			}
			for _, o := range pending {
				o.revision = msg.GetCursor().GetRevision()
				s.ops <- o
			}
			pending = nil
		}
	}()
	return s
}

func describe(r *rig, u *podconfigv1.PodUpdate) string {
	text := strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_")
	for _, p := range u.GetPods() {
		text += " " + strings.TrimSuffix(p.GetRef().GetName(), "-"+r.Name)
	}
	return text
}

// next returns the next op.
func (s *stream) next() op {
	s.t.Helper()
	select {
	case o, ok := <-s.ops:
		if !ok {
			s.t.Fatal("the stream ended")
		}
		return o
	case <-time.After(patience):
		s.t.Fatalf("no op within %v", patience)
	}
	panic("unreachable")
}

// await skips ops until one has that text.
func (s *stream) await(text string) op {
	s.t.Helper()
	var skipped []string
	for {
		o := s.next()
		if o.text == text {
			return o
		}
		if skipped = append(skipped, o.text); len(skipped) > 100 {
			s.t.Fatalf("no %q among %v", text, skipped)
		}
	}
}
