package execsvc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// TestRandomEvents adds, changes and removes pods at random, with a runtime that fails at times, and agents that are
// restarted and killed. In the end each desired pod runs once, or has run to its end, and nothing is left of other
// pods.
func TestRandomEvents(t *testing.T) {
	for range 4 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newPlayer(t, seed)
			for range 40 {
				p.step()
			}
			p.failing.Store(false)
			p.deliver(synced(client.Source{Name: "file", Ready: true}))
			p.wantDesired()
		})
	}
}

// player makes the random events of one run.
type player struct {
	*testAgent
	random *rand.Rand
	// failing is set while calls to the runtime fail at times.
	failing atomic.Bool
	// history has the delivered events: the next event after revision n is history[n].
	history []client.Event
	desired map[types.UID]*v1.Pod
}

func newPlayer(t *testing.T, seed uint64) *player {
	t.Helper()
	n := newNode(t)
	p := &player{random: rand.New(rand.NewPCG(seed, 0)), desired: map[types.UID]*v1.Pod{}}
	n.SetFault(func(_ context.Context, method string) error {
		if p.failing.Load() && method != "GetContainerEvents" && rand.IntN(3) == 0 {
			return errors.New("the runtime fails at times")
		}
		return nil
	})
	p.testAgent = n.start()
	return p
}

// step makes one random change, and sometimes waits until it is handled.
func (p *player) step() {
	uid := []types.UID{"a", "b", "c", "d"}[p.random.IntN(4)]
	// Two share each name.
	pod := newPod(uid, map[types.UID]string{"a": "web", "b": "db", "c": "web", "d": "db"}[uid], "file")
	pod.Annotations["version"] = fmt.Sprint(len(p.history))
	if uid == "d" {
		pod.Spec.RestartPolicy, pod.Spec.Containers[0].Args = v1.RestartPolicyNever, []string{"exit", "0"}
	}
	switch p.random.IntN(7) {
	case 0, 1:
		p.add(pod)
	case 2:
		if p.desired[uid] != nil {
			p.send(change(client.Update, true, pod))
		}
	case 3:
		if p.desired[uid] != nil {
			p.send(change(client.Remove, true, pod))
		}
	case 4:
		p.failing.Store(!p.failing.Load())
	case 5:
		p.exit(uid)
	case 6:
		p.restart(p.random.IntN(2) == 0)
	}
	if began := p.rounds.Load(); p.random.IntN(2) == 0 {
		eventually(p.n.t, "housekeeping goes on", func() bool { return p.rounds.Load() > began })
	}
}

// add adds a pod, which replaces those with its UID or name.
func (p *player) add(pod *v1.Pod) {
	var changes []client.Change
	for _, other := range p.desired {
		if other.Name == pod.Name {
			changes = append(changes, change(client.Remove, true, other))
		}
	}
	p.send(append(changes, change(client.Add, true, pod))...)
}

// send delivers the next event.
func (p *player) send(changes ...client.Change) {
	for _, c := range changes {
		for _, pod := range c.Pods {
			delete(p.desired, pod.UID)
			if pod.Object != nil {
				p.desired[pod.UID] = pod.Object
			}
		}
	}
	e := at(uint64(len(p.history)+1), ops(changes...))
	p.history = append(p.history, e)
	p.deliver(e)
}

func (p *player) exit(uid types.UID) {
	shown, _ := p.shown(uid)
	if s := shown.Status; s != nil && len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Running != nil {
		// It may have ended meanwhile.
		_ = p.n.Server.ExitContainer(strings.TrimPrefix(s.ContainerStatuses[0].ContainerID, "containerd://"), 1)
	}
}

// restart starts another agent; the stream goes on at the cursor of its store. An agent that is killed has lost the
// changes that weren't on disk.
func (p *player) restart(killed bool) {
	path := p.store
	onDisk, err := os.ReadFile(path)
	p.stop()
	if killed && err == nil {
		if err := os.WriteFile(path, onDisk, 0o600); err != nil {
			p.n.t.Fatal(err)
		}
	}
	p.failing.Store(false)
	state := stored(p.n.t, path)
	p.testAgent = p.n.startFrom(path)
	if state.Cursor != nil {
		for _, e := range p.history[state.Cursor.GetRevision():] {
			p.deliver(e)
		}
		return
	}
	for _, pod := range p.desired {
		p.deliver(at(uint64(len(p.history)), ops(change(client.Add, true, pod))))
	}
}

// wantDesired waits until all desired pods run, and checks that there are no others.
func (p *player) wantDesired() {
	t := p.n.t
	t.Helper()
	running := 0
	eventually(t, "each desired pod runs or has run, and there are no others", func() bool {
		running = 0
		shown := p.board.All()
		return len(shown) == len(p.desired) && !slices.ContainsFunc(shown, func(s podview.Pod) bool {
			want := p.desired[s.UID]
			if want == nil || s.Err != nil || s.Status == nil || s.Object.Annotations["version"] != want.Annotations["version"] {
				return true
			}
			if want.Spec.RestartPolicy == v1.RestartPolicyNever {
				return s.State != finished || s.Status.Phase != v1.PodSucceeded
			}
			running++
			return s.State != syncing || s.Status.Phase != v1.PodRunning
		})
	})
	p.housekeep()
	boxes, err := p.n.CRI.ListPodSandbox(t.Context(), nil)
	if err != nil || len(boxes) != len(p.desired) {
		t.Errorf("the runtime has %d sandboxes (%v); want %d", len(boxes), err, len(p.desired))
	}
	dirs, err := os.ReadDir(p.n.podsDir)
	if err != nil && !os.IsNotExist(err) || len(dirs) != running {
		t.Errorf("there are directories %v (%v); want %d", dirs, err, running)
	}
	p.stop()
	state := stored(t, p.store)
	has, want := slices.Sorted(maps.Keys(state.Statuses)), slices.Sorted(maps.Keys(p.desired))
	if len(state.Pods) != len(want) || !slices.Equal(has, want) {
		t.Errorf("the store has %d pods, and statuses of %v; want those of pods %v", len(state.Pods), has, want)
	}
	for uid, end := range state.Ends {
		if p.desired[uid] == nil || end.Removed || p.desired[uid].Spec.RestartPolicy != v1.RestartPolicyNever {
			t.Errorf("the store has an end of pod %s, removed: %v", uid, end.Removed)
		}
	}
}
