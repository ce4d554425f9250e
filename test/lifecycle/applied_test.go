package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// A pod that podctl applies runs, changes and ends in the runtime when podctl says so. A write against an old version is ABORTED.
// A podconfigd that is killed, and starts again, has the pod, which goes on.
func TestApplied(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		check(t, b.Podconfigd.Kill())
		var err error
		b.Podconfigd, err = b.Node.StartDaemonAs(b.Name+"-podconfigd-applied", "podconfigd", append(b.PodconfigdArgs(), "--applied")...)
		check(t, err)
		serving := func() {
			t.Helper()
			check(t, devnode.WaitServing(t.Context(), b.Podconfigd, "unix://"+b.ConfigSocket()))
		}
		serving()
		w := &appliedPod{t: t, b: b, name: b.podName(t)}
		w.podctl("pod/"+w.name+" created", "apply", "-f", w.manifest("first"), "--wait", "--timeout", patience.String())
		first := w.document()
		running := w.running(first)
		w.podctl("pod/"+w.name+" unchanged", "apply", "-f", w.manifest("first"))

		check(t, b.Podconfigd.Kill())
		check(t, b.Podconfigd.Start())
		serving()
		w.podctl("pod/"+w.name+" unchanged", "apply", "-f", w.manifest("first"), "--wait", "--timeout", patience.String())
		if now := w.document(); now.GetDigest() != first.GetDigest() || now.GetPod().GetUid() != first.GetPod().GetUid() {
			t.Errorf("after the kill the document is %v; want %v", now, first)
		}
		if now := w.running(first); now != running {
			t.Errorf("after the kill of podconfigd, container %s runs; want %s still", now, running)
		}

		w.podctl("pod/"+w.name+" configured", "apply", "-f", w.manifest("second"), "--wait", "--timeout", patience.String())
		second := w.document()
		if w.running(second) == running {
			t.Error("the changed pod has the container of the former one")
		}
		w.wantGone(first)
		_, err = b.Config.ApplyManifests(t.Context(), &podconfigv1.ApplyManifestsRequest{
			Files:    []*podconfigv1.ManifestFile{{Name: "third", Content: []byte(w.text("third"))}},
			Expected: []*podconfigv1.ManifestExpectation{{Ref: first.GetRef(), Digest: first.GetDigest()}},
		})
		if status.Code(err) != codes.Aborted {
			t.Errorf("a write against the first version: %v; want ABORTED", err)
		}
		if now := w.document(); now.GetDigest() != second.GetDigest() {
			t.Errorf("after the aborted write the document is %v; want %v", now, second)
		}
		w.running(second)

		w.podctl(`pod "`+w.name+`" deleted from default namespace`, "delete", w.name, "--wait", "--timeout", patience.String())
		w.wantGone(second)
		if stdout, stderr, code := b.podctl(t.Context(), "delete", w.name); code != 1 || !strings.Contains(stderr, "there is no applied pod") {
			t.Errorf("a second removal: exit code %d, %s%s", code, stdout, stderr)
		}
	})
}

// appliedPod is a pod that podctl writes.
type appliedPod struct {
	t    *testing.T
	b    *bench
	name string
}

// text returns a version of the manifest.
func (w *appliedPod) text(version string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - {name: main, image: "%s", imagePullPolicy: IfNotPresent, args: [sleep], env: [{name: VERSION, value: %s}]}
`, w.name, devnode.SampleImage, version)
}

// manifest writes a version of the manifest to a file, outside of podconfigd's directory.
func (w *appliedPod) manifest(version string) string {
	w.t.Helper()
	dir := w.b.Path("work")
	path := w.b.Path("work", w.name+".yaml")
	check(w.t, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, []byte(w.text(version)), 0o600)))
	return path
}

// podctl runs a write, whose one line of output says what it did.
func (w *appliedPod) podctl(want string, args ...string) {
	w.t.Helper()
	stdout, stderr, code := w.b.podctl(w.t.Context(), args...)
	if code != 0 || stdout != want+"\n" {
		w.t.Fatalf("podctl %s: exit code %d, %s%s; want %s\npodconfigd's log ends with:\n%s", strings.Join(args, " "), code, stdout, stderr, want, w.b.Podconfigd.LogTail())
	}
}

// document returns the stored document.
func (w *appliedPod) document() *podconfigv1.AppliedManifest {
	w.t.Helper()
	resp, err := w.b.Config.ListManifests(w.t.Context(), &podconfigv1.ListManifestsRequest{Refs: []*podconfigv1.ManifestRef{{Name: w.name}}})
	check(w.t, err)
	if len(resp.GetManifests()) != 1 {
		w.t.Fatalf("podconfigd has %d documents; want that of %s", len(resp.GetManifests()), w.name)
	}
	return resp.GetManifests()[0]
}

// running returns the one container of the document's pod that runs, as the runtime has it.
func (w *appliedPod) running(d *podconfigv1.AppliedManifest) string {
	w.t.Helper()
	found, err := w.b.Containers(w.t.Context(), d.GetPod().GetUid())
	check(w.t, err)
	found = slices.DeleteFunc(found, func(c *runtimeapi.Container) bool { return c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING })
	if len(found) != 1 {
		w.t.Fatalf("the runtime has %d running containers of %s; want one", len(found), d.GetPod())
	}
	return found[0].GetId()
}

// wantGone waits until the runtime has nothing of the document's pod.
func (w *appliedPod) wantGone(d *podconfigv1.AppliedManifest) {
	w.t.Helper()
	uid := d.GetPod().GetUid()
	eventually(w.t, "the runtime has nothing of pod "+uid, func() error {
		containers, err := w.b.Containers(w.t.Context(), uid)
		if err != nil {
			return err
		}
		sandboxes, err := w.b.CRI.ListPodSandbox(w.t.Context(), &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": uid}},
		})
		if err == nil && len(containers)+len(sandboxes.GetItems()) > 0 {
			err = fmt.Errorf("it has %d containers and %d sandboxes", len(containers), len(sandboxes.GetItems()))
		}
		return err
	})
}
