package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// Either daemon is killed with SIGKILL at any point while a pod is added, edited and removed. The final state
// is the same, and a healthy container of another pod isn't restarted.
func TestKillNineAtAnyPoint(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		for _, victim := range []string{"podconfigd", "podexecd"} {
			t.Run(victim, func(t *testing.T) {
				r := newRig(t, node)
				process := map[string]*devnode.Process{"podconfigd": r.Podconfigd, "podexecd": r.Podexecd}[victim]
				r.write("bystander.yaml", manifest("bystander", "main: sleep"))
				bystander := r.awaitRunning("bystander")
				before := r.containers(bystander)[0]

				strike := func(after string) {
					// From no pause to well after the end of the work.
					pause := time.Duration(random.IntN(600)) * time.Millisecond
					timer := time.NewTimer(pause)
					defer timer.Stop()
					<-timer.C
					if err := process.Kill(); err != nil {
						t.Fatal(err)
					}
					t.Logf("killed %s %v after %s", victim, pause, after)
					if err := process.Start(); err != nil {
						t.Fatal(err)
					}
				}
				last := ""
				for round := range 3 {
					r.write("web.yaml", manifest("web", fmt.Sprintf("web: print, v%d", round), "side: sleep"))
					strike("the write")
					r.eventually("the new version runs", func() error {
						pod, _, err := r.observed("web")
						if err == nil && pod.GetRef().GetUid() == last {
							return fmt.Errorf("the old version is still desired")
						}
						return err
					})
					uid := r.awaitRunning("web")
					r.eventually("each container of the new version runs once, and nothing of the old one", func() error {
						all := r.containers("")
						running := map[string]int{}
						for _, c := range all {
							if c.GetLabels()["io.kubernetes.pod.uid"] == last {
								return fmt.Errorf("container %s of the old version still exists", c.GetMetadata().GetName())
							}
							if c.GetLabels()["io.kubernetes.pod.uid"] == uid {
								running[c.GetMetadata().GetName()]++
							}
						}
						if len(running) != 2 || running["web"] != 1 || running["side"] != 1 {
							return fmt.Errorf("containers by name: %v", running)
						}
						return nil
					})
					last = uid
				}
				r.remove("web.yaml")
				strike("the removal")
				r.eventually("the pod is gone", func() error {
					if n := len(r.containers(last)); n > 0 {
						return fmt.Errorf("%d containers are left", n)
					}
					return nil
				})
				after := r.containers(bystander)
				if len(after) != 1 || after[0].GetId() != before.GetId() {
					t.Errorf("the bystander's container was %s, and is now %v", before.GetId(), after)
				}
			})
		}
	})
}

// When podexecd starts again, it acts on a manifest that was changed or removed meanwhile, but not before its source
// is ready.
func TestChangesWhilePodexecdIsDown(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, node *devnode.Node) {
		r := newRig(t, node)
		r.write("stays.yaml", manifest("stays", "main: sleep"))
		r.write("edited.yaml", manifest("edited", "main: print, v1"))
		r.write("goes.yaml", manifest("goes", "main: sleep"))
		stays, edited, goes := r.awaitRunning("stays"), r.awaitRunning("edited"), r.awaitRunning("goes")
		before := r.containers(stays)[0].GetId()
		if err := r.Podexecd.Kill(); err != nil {
			t.Fatal(err)
		}
		r.write("edited.yaml", manifest("edited", "main: print, v2"))
		r.remove("goes.yaml")
		if err := r.Podexecd.Start(); err != nil {
			t.Fatal(err)
		}
		r.eventually("the removed pod is gone, the edited pod is replaced", func() error {
			for _, uid := range []string{edited, goes} {
				if n := len(r.containers(uid)); n > 0 {
					return fmt.Errorf("%d containers of pod %s are left", n, uid)
				}
			}
			return nil
		})
		r.awaitRunning("edited")
		if after := r.containers(stays); len(after) != 1 || after[0].GetId() != before {
			t.Errorf("the container that should have stayed was %s, and is now %v", before, after)
		}
	})
}
