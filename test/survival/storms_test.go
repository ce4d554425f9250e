package survival

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

const (
	// stormsTime is the duration of TestStorms if ROBUSTNESS_TIME isn't set.
	stormsTime = 20 * time.Second
	// deedsAStorm is the average number of deeds in a storm.
	deedsAStorm = 8
	// mostPods and fewestPods bound the number of desired pods.
	mostPods, fewestPods = 9, 4
)

// TestStorms runs pods of every policy through storms of kills and changes, and checks at the quiet point after
// each storm, and at the end.
func TestStorms(t *testing.T) {
	for name, runtime := range map[string]devnode.Runtime{
		"containerd-1.7": devnode.Containerd17, "containerd-2": devnode.Containerd2, "sim": devnode.Sim,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := startNode(t, devnode.Config{Runtime: runtime, BinDir: binaries(t, "")})
			s := newSite(t, node, "storm")
			s.history.Whole = runtime == devnode.Sim
			from, began := firstSeed(), time.Now()
			t.Logf("seed %d; the timing can't be repeated", from)
			length, _ := robustnessTime(t, stormsTime)
			w := &weather{site: s, random: rand.New(rand.NewPCG(from, uint64(runtime))), simulated: runtime == devnode.Sim, count: map[string]int{}}
			storms := 0
			for until := began.Add(length); time.Now().Before(until); storms++ {
				w.storm()
				if err := s.quiet(patience); err != nil {
					t.Errorf("after storm %d from seed %d: %v", storms, from, err)
					break
				}
			}
			for _, b := range s.check() {
				t.Errorf("seed %d: %v", from, b)
			}
			t.Logf("%d storms of %v from seed %d took %v", storms, w.count, from, time.Since(began).Round(time.Millisecond))
		})
	}
}

// weather makes storms.
type weather struct {
	*site
	random    *rand.Rand
	simulated bool
	// count is the number of deeds of each sort.
	count map[string]int
}

// storm does deeds at random, and ends with all processes started.
func (w *weather) storm() {
	for len(w.pods) < fewestPods {
		w.add(w.kind(), "")
	}
	for range 1 + w.random.IntN(2*deedsAStorm-1) {
		w.deed()
		pause := time.NewTimer(time.Duration(w.random.IntN(400)) * time.Millisecond)
		<-pause.C
	}
	w.startAll()
}

func (w *weather) startAll() {
	w.start(w.podconfigd, ConfigStarted)
	w.start(w.node.Runtime(), RuntimeStarted)
	w.start(w.podexecd, AgentStarted)
}

func (w *weather) kind() kind { return kinds[w.random.IntN(len(kinds))] }

// deed does one deed. More likely ones are listed more often.
func (w *weather) deed() {
	names := w.names()
	deeds := []string{"podexecd", "podexecd", "podexecd", "podconfigd", "add", "drop", "renew", "relabel", "start", "start", "runtime", "shim", "task", "absence"}
	what := deeds[w.random.IntN(len(deeds))]
	if (what == "shim" || what == "task") && w.simulated || what == "add" && len(names) >= mostPods || (what == "drop" || what == "absence") && len(names) <= 1 {
		return
	}
	w.count[what]++
	var chosen string
	if len(names) > 0 {
		chosen = names[w.random.IntN(len(names))]
	}
	switch what {
	case "podexecd":
		w.toggle(w.podexecd, AgentKilled, AgentStarted)
	case "podconfigd":
		w.toggle(w.podconfigd, ConfigKilled, ConfigStarted)
	case "runtime":
		if alive(w.node.Runtime()) && w.simulated {
			w.did(Harm, "", "the simulated runtime's pods end with its process")
		}
		w.toggle(w.node.Runtime(), RuntimeKilled, RuntimeStarted)
	case "start":
		w.startAll()
	case "add":
		w.add(w.kind(), "")
	case "drop":
		w.drop(chosen)
	case "renew":
		w.renew(w.pods[chosen])
	case "relabel":
		w.relabel(w.pods[chosen])
	case "shim", "task":
		w.harm(what)
	case "absence":
		w.absence(chosen)
	}
}

// absence drops a pod, kills podexecd at about the time at which podexecd receives the change, and leaves it
// away for longer than the pod's grace period.
func (w *weather) absence(name string) {
	w.startAll()
	grace := time.Duration(w.pods[name].grace) * time.Second
	w.drop(name)
	heard := time.NewTimer(time.Duration(w.random.IntN(200)) * time.Millisecond)
	<-heard.C
	w.kill(w.podexecd, AgentKilled)
	over := time.NewTimer(grace + time.Second)
	<-over.C
	w.start(w.podexecd, AgentStarted)
}

// toggle kills the process if it runs, and starts it otherwise.
func (w *weather) toggle(p *devnode.Process, killed, started Kind) {
	if alive(p) {
		w.kill(p, killed)
	} else {
		w.start(p, started)
	}
}

// harm kills a shim, or the first process of a container or sandbox, of the last look.
func (w *weather) harm(what string) {
	w.mu.Lock()
	var last Look
	if n := len(w.history.Looks); n > 0 {
		last = w.history.Looks[n-1]
	}
	w.mu.Unlock()
	type victim struct{ id, uid string }
	var victims []victim
	for _, b := range last.Sandboxes {
		if b.Ready {
			victims = append(victims, victim{b.ID, b.UID})
		}
	}
	if what == "task" {
		for _, c := range last.Containers {
			if c.Running {
				victims = append(victims, victim{c.ID, c.UID})
			}
		}
	}
	if len(victims) == 0 {
		return
	}
	v := victims[w.random.IntN(len(victims))]
	w.did(Harm, v.uid, fmt.Sprintf("%s of %.12s", what, v.id))
	kill := w.node.KillTask
	if what == "shim" {
		w.did(ShimKilled, v.uid, "")
		kill = w.node.KillShim
	}
	// It may have ended meanwhile, and its files may be incomplete.
	if err := kill(v.id); err != nil && !errors.Is(err, os.ErrProcessDone) && !strings.Contains(err.Error(), "unexpected end of JSON") {
		w.t.Fatal(err)
	}
}
