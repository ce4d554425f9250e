package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/devnode"
)

// A pod whose manifest has a UID is updated under that UID. An impossible update leaves the running pod
// unchanged, and can be undone.
func TestUpdateUnderOneUID(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		r := newRig(t, node)
		uid := "fixed-uid-" + r.Name
		good := strings.Replace(manifest("web", "web: sleep"), "  name: web\n", "  name: web\n  uid: "+uid+"\n", 1)
		stream := r.watch(nil)
		stream.await("SYNCED")
		r.write("web.yaml", good)
		if got := r.awaitRunning("web"); got != uid {
			t.Fatalf("the pod's uid is %s, want %s", got, uid)
		}
		before := r.containers(uid)[0].GetId()
		same := func(after string) {
			t.Helper()
			if now := r.containers(uid); len(now) != 1 || now[0].GetId() != before {
				t.Fatalf("after %s the container was %s, and is now %v", after, before, now)
			}
		}
		lastError := func(part string) func() error {
			return func() error {
				pod, _, err := r.observed("web")
				if err != nil {
					return err
				}
				if !strings.Contains(pod.GetLastError(), part) || part == "" && pod.GetLastError() != "" {
					return fmt.Errorf("the last error is %q", pod.GetLastError())
				}
				return nil
			}
		}

		r.write("web.yaml", strings.Replace(good, devnode.SampleImage, "missing.invalid/missing:v1", 1))
		stream.await("UPDATE web")
		r.eventually("the missing image is reported", lastError("ErrImageNeverPull"))
		same("an update to a missing image")

		r.write("web.yaml", good+"    volumeMounts: [{name: c, mountPath: /c}]\n  volumes:\n  - {name: c, cephfs: {monitors: [ceph.invalid]}}\n")
		stream.await("UPDATE web")
		r.eventually("the update is rejected", lastError("UnsupportedFeature"))
		same("an update to an unsupported field")

		r.write("web.yaml", good)
		stream.await("UPDATE web")
		r.eventually("the error is gone", lastError(""))
		r.awaitRunning("web")
		same("the update back")
	})
}
