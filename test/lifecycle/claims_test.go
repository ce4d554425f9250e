package lifecycle

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/devnode"
)

const dataClaim = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// claimer is the spec of a pod that appends a line to a file in the volume of the claim "data".
func claimer(line string) string {
	return fmt.Sprintf(`
containers:
- {name: main, args: [seq, append, /data/lines, %s, ;, sleep], volumeMounts: [{name: data, mountPath: /data}]}
volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`, line)
}

// TestClaimsOfStaticPods: a static pod's claim is a directory of the node. A second pod waits for the first one, also after
// podexecd was killed, and its event names both. The data outlives the pods, the claim and the restart. A pod without its claim
// waits.
func TestClaimsOfStaticPods(t *testing.T) {
	onOwnBench(t, latest, nil, func(t *testing.T, b *bench) {
		has := func(want string) {
			t.Helper()
			eventually(t, "the lines are "+want, func() error {
				data, err := os.ReadFile(b.Path("podexecd", "claims", "default", "data", "lines"))
				if got := strings.Join(strings.Fields(string(data)), " "); got != want {
					return fmt.Errorf("the lines are %q, %w", got, err)
				}
				return nil
			})
		}
		check(t, b.Write("claim.yaml", dataClaim))
		first := b.run(t, claimer("one"))
		first.awaitReady()
		has("one")
		second := b.run(t, claimer("two"))
		second.awaitEvent("FailedMount", "default/"+first.name, "default/"+second.name, "isn't ReadWriteMany")
		running := first.now()
		b.restartPodexecd(t, (*devnode.Process).Kill)
		wantUnchanged(first, &running, "main")
		has("one")

		first.remove()
		second.awaitReady()
		has("one two")
		second.remove()
		second.awaitGone()
		check(t, b.Remove("claim.yaml"))
		lacks := b.run(t, strings.Replace(claimer("none"), "claimName: data", "claimName: missing", 1))
		lacks.awaitEvent("FailedMount", "persistentvolumeclaim default/missing: it doesn't exist")
		has("one two")
		check(t, b.Write("claim.yaml", dataClaim))
		third := b.run(t, claimer("three"))
		third.awaitReady()
		has("one two three")
		third.remove()
		third.awaitGone()
		check(t, b.Remove("claim.yaml"))
		has("one two three")
	})
}
