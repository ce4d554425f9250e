package robustness

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// someGateways is the number of gateways in a run.
const someGateways = 3

// cloud is an API server, gateways that follow it, and consumers that move between these.
type cloud struct {
	chance
	recorder  *Recorder
	gateways  []*gateway
	truth     *Truth
	consumers []*mover
	patience  time.Duration
	// former are the clusters that were replaced.
	former []string
	// made counts the pods and their versions.
	made int
	// seen counts what happened, by kind.
	seen       map[string]int
	operations int
	stuck      bool
}

// mover is a consumer, and the gateway where it is.
type mover struct {
	*consumer
	where *gateway
}

func newCloud(c chance, dir string, patience time.Duration) (*cloud, error) {
	all := &Gateways{Truth: NewTruth("c0")}
	w := &cloud{chance: c, recorder: NewRecorder(localRevisions, patience), truth: all.Truth, patience: patience, seen: map[string]int{}}
	w.recorder.Gateways(all)
	for range 3 {
		w.change()
	}
	for i := range someGateways {
		name := string(rune('a' + i))
		g := newGateway(name, filepath.Join(dir, name), all)
		if err := os.Mkdir(g.dir, 0o700); err != nil {
			return w, err
		}
		w.gateways = append(w.gateways, g)
		if err := w.begin(g, false); err != nil {
			return w, err
		}
	}
	for i := range someConsumers {
		m := &mover{consumer: newConsumer(w.recorder, fmt.Sprintf("c%d", i))}
		m.format = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
		if i > 0 {
			m.filter = &podconfigv1.PodFilter{Nodes: []string{fmt.Sprintf("node-%d", i%2)}}
		}
		w.consumers = append(w.consumers, m)
	}
	return w, nil
}

// begin starts a gateway.
func (w *cloud) begin(g *gateway, kept bool) error {
	if err := g.begin(kept); err != nil {
		return err
	}
	return w.files(g)
}

// step does one action.
func (w *cloud) step() error {
	g := w.gateways[w.intn(len(w.gateways), "gateway")]
	switch what := w.intn(32, "what"); {
	case w.stuck:
		return nil
	case what < 9:
		w.change()
	case what < 13:
		if behind := w.truth.Now() - g.moment; g.moment >= 0 && behind > 0 {
			return g.watch(g.moment+1+w.intn(behind, "up to"), oneIn(w, 3, "bookmark"))
		}
		return g.watch(w.truth.Now(), true)
	case what < 15:
		if g.linked = !g.linked; !g.linked {
			_, err := g.apply(manifest.Set{Source: apiSource, Err: errCutOff})
			return err
		}
		if oneIn(w, 2, "relist") {
			return g.list()
		}
	case what < 17:
		g.take()
	case what < 18:
		return w.files(g)
	case what < 19:
		return g.save()
	case what < 20:
		return w.restart(g)
	case what < 21:
		return w.catastrophe(g)
	default:
		return w.consume(w.consumers[w.intn(len(w.consumers), "consumer")], g)
	}
	return nil
}

// change changes something at the API server.
func (w *cloud) change() {
	version := w.truth.Version(w.truth.Now()) + 1 + uint64(w.intn(3, "further objects"))
	pods := make([]*manifest.Pod, 0, len(w.truth.Pods(w.truth.Now())))
	for _, p := range w.truth.Pods(w.truth.Now()) {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, compareNames)
	event := TruthEvent{Kind: Stored, Version: version, At: time.Now()}
	switch what := w.intn(6, "change"); {
	case what == 5:
		event.Kind = Unrelated
	case len(pods) < 2 || what == 4 && len(pods) < 6:
		name := pick(w, "name", "n0", "n1", "n2", "n3", "n4", "s0")
		if slices.ContainsFunc(pods, func(p *manifest.Pod) bool { return p.Name == name }) {
			event.Kind = Unrelated
			break
		}
		event.Pod = w.pod(name, pick(w, "node", "node-0", "node-1"))
	case what == 0:
		event.Kind, event.UID = Deleted, string(pods[w.intn(len(pods), "which pod")].UID)
	case what == 1:
		// The pod is recreated, under its name.
		old := pods[w.intn(len(pods), "which pod")]
		w.truth.Append(TruthEvent{Kind: Deleted, Version: version, At: event.At, UID: string(old.UID)})
		event.Version, event.Pod = version+1, w.pod(old.Name, old.Spec.NodeName)
	default:
		old := pods[w.intn(len(pods), "which pod")].DeepCopy()
		if w.made++; oneIn(w, 2, "status") {
			old.Status.Message = fmt.Sprint(w.made)
		} else {
			old.Annotations["version"] = fmt.Sprint(w.made)
		}
		event.Pod = mergetest.Pod(old)
	}
	w.truth.Append(event)
}

// pod returns a pod with a UID that no other has had.
func (w *cloud) pod(name, node string) *manifest.Pod {
	w.made++
	return mergetest.Pod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(fmt.Sprintf("u%d", w.made)), Namespace: "default", Name: name, Annotations: map[string]string{},
		},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: "i"}}},
	})
}

func compareNames(a, b *manifest.Pod) int { return cmp.Compare(a.Name, b.Name) }

// files gives a gateway other pods of the source file. One of them has a name that a pod of the API server may have.
func (w *cloud) files(g *gateway) error {
	var pods []*manifest.Pod
	for _, name := range []string{"f0", "f1", "s0"} {
		if oneIn(w, 2, name) {
			pods = append(pods, w.pod(name, pick(w, "node", "node-0", "node-1")))
		}
	}
	return g.setFile(pods)
}

// restart restarts a gateway: with its store, with an old copy of it, or without.
func (w *cloud) restart(g *gateway) error {
	for _, c := range w.consumers {
		if c.where == g {
			w.leave(c)
		}
	}
	if err := g.stop(); err != nil {
		return err
	}
	how := w.intn(4, "store")
	if how == 2 {
		if err := g.revert(); err != nil {
			return err
		}
	}
	return w.begin(g, how != 3)
}

// catastrophe makes the cluster's history go back, or replaces the cluster, or makes an administrator accept that.
func (w *cloud) catastrophe(g *gateway) error {
	now := w.truth.Now()
	switch w.intn(6, "catastrophe") {
	case 0, 1, 2:
		to := max(now-1-w.intn(12, "how far back"), 0)
		if w.truth.Cluster(to) == w.truth.Cluster(now) {
			w.truth.Append(TruthEvent{Kind: Restored, At: time.Now(), To: to})
		}
	case 3, 4:
		g.accept(w.former)
		return g.list()
	default:
		w.former = append(slices.Clone(w.former), w.truth.Cluster(now))
		w.truth.Append(TruthEvent{
			Kind: Replaced, At: time.Now(), Cluster: fmt.Sprintf("c%d", len(w.former)), Version: uint64(1 + w.intn(50, "version")),
		})
	}
	return nil
}

// consume makes a consumer read all, or move to a gateway.
func (w *cloud) consume(c *mover, to *gateway) error {
	w.operations++
	if c.where != nil {
		w.rest(c, (*stream).reached, false)
		if oneIn(w, 3, "stays") {
			return nil
		}
		w.leave(c)
	}
	return w.move(c, to)
}

// leave ends a consumer's stream.
func (w *cloud) leave(c *mover) {
	c.drop()
	c.where = nil
}

// move makes a consumer subscribe at a gateway: with its cursor and its pods, sometimes with older ones, or with none.
func (w *cloud) move(c *mover, to *gateway) error {
	req := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: c.name, Mode: c.mode, Format: c.format, Filter: c.filter, HeartbeatInterval: durationpb.New(time.Second),
	}
	how := w.intn(12, "how to come back")
	switch {
	case len(c.saved) == 0 || how == 11:
		c.holds = newReplica()
	case how == 10:
		older := c.saved[w.intn(len(c.saved), "which cursor")]
		c.holds, req.ResumeAfter = older.held.clone(), older.cursor
	default:
		last := c.saved[len(c.saved)-1]
		c.holds, req.ResumeAfter = last.held.clone(), last.cursor
	}
	req.KnownPods = c.known()
	if err := c.open(to.api(), req, -1, c.SubscribeTo(to.number, req)); err != nil {
		return err
	}
	c.where = to
	w.rest(c, (*stream).reached, false)
	return nil
}

// rest waits until a consumer has all that its gateway sends.
func (w *cloud) rest(c *mover, done func(*stream, uint64) bool, last bool) {
	if w.stuck {
		return
	}
	hurry := func() bool {
		for _, g := range w.gateways {
			if last {
				w.stuck = g.catchUp() != nil || w.stuck
			}
			g.hurry()
		}
		return true
	}
	if !c.stream.await(done, c.where.at.revision, hurry, w.patience) {
		w.stuck = true
		c.stream.recorder.End(fmt.Errorf("it didn't receive all up to revision %d", c.where.at.revision), false)
		return
	}
	c.stream.recorder.Rest(last)
	if c.stream.holds() {
		w.seen["rests of a consumer of which a source is held"]++
	} else {
		w.seen["other rests"]++
	}
}

// finish makes all gateways read the API server, and all consumers read what the gateways then have.
func (w *cloud) finish() error {
	for _, g := range w.gateways {
		g.linked = true
		g.accept(w.former)
		if err := g.list(); err != nil {
			return err
		}
	}
	for _, c := range w.consumers {
		if c.where == nil && !w.stuck {
			if err := w.move(c, w.gateways[w.intn(len(w.gateways), "gateway")]); err != nil {
				return err
			}
		}
	}
	for _, c := range w.consumers {
		if c.where != nil {
			w.rest(c, (*stream).released, true)
		}
	}
	return nil
}

// end ends all streams and gateways.
func (w *cloud) end() {
	for _, c := range w.consumers {
		if c.where != nil {
			w.leave(c)
		}
	}
	for _, g := range w.gateways {
		g.close()
	}
}

// simulateGateways makes one run.
func simulateGateways(t *rapid.T, patience time.Duration) *cloud {
	w, err := newCloud(drawn{t}, tempDir(t), patience)
	defer w.end()
	if err != nil {
		t.Fatal(err)
	}
	t.Repeat(map[string]func(*rapid.T){"step": func(t *rapid.T) {
		if err := w.step(); err != nil {
			t.Fatal(err)
		}
	}})
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	return w
}
