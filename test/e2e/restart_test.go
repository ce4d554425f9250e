package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// However podconfigd ends and starts again, no container is restarted, and a resuming consumer receives only
// the source's readiness. Instance ID, UIDs and first-seen times are the same (G5, G6).
func TestG6RestartChangesNothing(t *testing.T) {
	t.Parallel()
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		k := newKeeping(t, node, nil, "web", "side")
		for _, end := range []struct {
			name string
			end  func() error
		}{{"SIGTERM", k.Podconfigd.Stop}, {"SIGKILL", k.Podconfigd.Kill}, {"another SIGKILL", k.Podconfigd.Kill}} {
			check(t, end.end())
			check(t, k.Podconfigd.Start())
			k.resumes(end.name, "ADD")
			k.unharmed(end.name, "web", "side")
			k.same(end.name, true, "web", "side")
		}
	})
}

// Manifests that change while podconfigd is down cause exactly their changes after its start. A pod whose
// manifest was made invalid stays (G2, G5, G6).
func TestG6ChangesWhileDownAreSeen(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*devnode.Process) error{"SIGTERM": (*devnode.Process).Stop, "SIGKILL": (*devnode.Process).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeping(t, startNode(t, devnode.Sim), nil, "stays", "edited", "broken", "removed")
			check(t, end(k.Podconfigd))
			k.write("edited.yaml", manifest("edited", "main: print, v2"))
			k.write("broken.yaml", "kind: Pod\n  spec")
			k.remove("removed.yaml")
			k.write("added.yaml", manifest("added", "main: sleep"))
			check(t, k.Podconfigd.Start())
			k.resumes("the changes", "REMOVE edited removed", "ADD added edited")
			k.unharmed("the changes", "stays", "broken")
			k.eventually("removed and replaced pods are gone", func() error {
				for _, name := range []string{"removed", "edited"} {
					if left := k.containers(k.held[name].known.GetUid()); len(left) > 0 {
						return fmt.Errorf("%s has the container %v", name, left[0])
					}
				}
				return nil
			})
			k.awaitRunning("edited")
			k.awaitRunning("added")
			findings := k.findings(filepath.Join(k.Manifests, "broken.yaml"))
			if len(findings) != 1 || len(findings[0].GetKeptPods()) != 1 ||
				findings[0].GetKeptPods()[0].GetUid() != k.held["broken"].known.GetUid() {
				t.Errorf("findings for the broken manifest: %v; want one that names the pod that is kept", findings)
			}
			k.same("the changes", true, "stays", "broken")
		})
	}
}

// A podconfigd that starts without its manifest directory has the pods from its store: they continue to run and
// are shown as stale, and nothing is removed, until the directory exists again (G9).
func TestG9MissingDirectoryRemovesNothing(t *testing.T) {
	t.Parallel()
	k := newKeeping(t, startNode(t, devnode.Sim), nil, "web", "side")
	check(t, k.Podconfigd.Kill())
	away := k.Manifests + ".away"
	check(t, os.Rename(k.Manifests, away))
	check(t, k.Podconfigd.Start())
	k.eventually("the source can't be read, and podexecd is connected", func() error {
		source, err := k.source()
		if err != nil {
			return err
		}
		if source.GetReady() || !strings.Contains(source.GetLastError(), "no such file") || source.GetPodCount() != 2 {
			return fmt.Errorf("the source is %v", source)
		}
		resp, err := k.Config.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
		if err != nil {
			return err
		}
		for _, c := range resp.GetConsumers() {
			if strings.HasPrefix(c.GetName(), "podexecd") && c.GetState() == podconfigv1.ConsumerState_CONSUMER_STATE_LIVE {
				return nil
			}
		}
		return fmt.Errorf("consumers %v", resp.GetConsumers())
	})
	before := k.held
	cursor := k.cursor
	stream := k.watch(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursor})
	k.snapshot()
	for _, name := range []string{"web", "side"} {
		if now := k.held[name]; !now.stale || now.known.GetUid() != before[name].known.GetUid() {
			t.Errorf("pod %s is served as %+v; want it stale", name, now)
		}
	}
	if text := k.startPodctl("pods", "-o", "yaml")("the end"); strings.Count(text, "stale: true") != 2 {
		t.Errorf("podctl doesn't show two stale pods:\n%s", text)
	}
	k.unharmed("the loss of the directory", "web", "side")
	check(t, os.Rename(away, k.Manifests))
	for _, want := range []string{"SYNCED", "ADD"} {
		if o := stream.next(); o.text != want {
			t.Errorf("a consumer that resumed receives %q; want %q", o.text, want)
		}
	}
	k.resumes("the directory's return", "ADD")
	k.unharmed("the directory's return", "web", "side")
	k.same("the directory's return", true, "web", "side")
}
