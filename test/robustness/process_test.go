package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/injectd/inject"
)

const (
	// processTime is the duration of TestProcess if ROBUSTNESS_TIME isn't set.
	processTime = 10 * time.Second
	// stepsAProcessRun is the number of steps after which a run is checked.
	stepsAProcessRun = 1000
	// startTimeout bounds a start of the daemon.
	startTimeout = time.Minute
)

// robustnessTime returns the environment's ROBUSTNESS_TIME, or otherwise.
func robustnessTime(t *testing.T, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("ROBUSTNESS_TIME")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ROBUSTNESS_TIME: %v", err)
	}
	return d
}

// TestProcess checks every promise on a daemon that is a separate process, with its store on disk and its
// sockets, and that is killed with SIGKILL at any moment.
func TestProcess(t *testing.T) {
	node, err := devnode.Start(t.Context(), devnode.Config{Dir: t.TempDir(), Runtime: devnode.Sim, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &process{node: node}
	t.Cleanup(d.close)
	from, began := firstSeed(t), time.Now()
	t.Logf("seed %d; the timing of the process can't be repeated", from)
	operations, runs, kills := 0, 0, 0
	for until := began.Add(robustnessTime(t, processTime)); time.Now().Before(until); runs++ {
		rec := NewRecorder(0, 0)
		c := dice{rand.New(rand.NewPCG(from, uint64(runs)))}
		s, err := newSimulation(c, d, newFeeds(c, 48), rec, rec.History().patience(), someConsumers)
		if err != nil {
			t.Fatal(err)
		}
		s.hasty = true
		for i := 0; i < stepsAProcessRun && time.Now().Before(until); i++ {
			if err := s.step(); err != nil {
				s.end()
				t.Fatal(err)
			}
		}
		s.finish()
		s.end()
		h := rec.History()
		learnReadTimes(h)
		if breaches := Breaches(h); len(breaches) > 0 {
			t.Fatalf("run %d from seed %d:\n%s", runs, from, account(h, breaches))
		}
		operations, kills = operations+s.operations, kills+rec.lives-1
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("%d operations and %d kills in %d runs, seed %d, took %v", operations, kills, runs, from, took)
}

// process is injectd as a process.
type process struct {
	node    *devnode.Node
	process *devnode.Process
	roots   int
	conn    *grpc.ClientConn
	inject  *inject.Client
}

// keepID gives the root directory of a podconfigd without its store the ID of the former one. Consumers and relays don't
// come from another podconfigd then: such a one may have other files, whose pods they keep.
func keepID(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return copyFile(filepath.Join(to, idFile), filepath.Join(from, idFile))
}

// idFile is the file of a podconfigd's ID in its root directory.
const idFile = "podconfigd-id"

// start is part of daemon.
func (p *process) start(sources []string, kept bool) (at, error) {
	root := func() string { return p.node.Path(fmt.Sprintf("root%d", p.roots)) }
	if !kept {
		before := root()
		if p.roots++; p.process != nil {
			if err := keepID(before, root()); err != nil {
				return at{}, err
			}
		}
	}
	endpoint, sets := "unix://"+p.node.Socket("robust"), "unix://"+p.node.Socket("robust-sets")
	args := []string{"--root-dir", root(), "--listen", endpoint, "--inject-listen", sets}
	for _, s := range sources {
		args = append(args, "--inject-source", s)
	}
	var err error
	if p.process == nil {
		p.process, err = p.node.StartDaemonAs("robust", "injectd", args...)
	} else {
		p.process.Args = args
		err = p.process.Start()
	}
	if err != nil {
		return at{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := devnode.WaitServing(ctx, p.process, endpoint); err != nil {
		return at{}, fmt.Errorf("%w; its output ends with:\n%s", err, p.process.LogTail())
	}
	if p.inject, err = inject.Dial(ctx, sets); err != nil {
		return at{}, err
	}
	p.conn, err = grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(window))
	if err != nil {
		return at{}, err
	}
	now, err := p.api().ListPods(ctx, &podconfigv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
	return at{instance: now.GetInstanceId(), revision: now.GetRevision()}, err
}

// api is part of daemon.
func (p *process) api() podconfigv1.PodConfigServiceClient {
	return podconfigv1.NewPodConfigServiceClient(p.conn)
}

// hurry is part of daemon. A process sends heartbeats when it is time.
func (p *process) hurry() bool { return false }

// apply is part of daemon.
func (p *process) apply(set manifest.Set) (at, error) {
	published, err := p.inject.Apply(injected(set))
	return at{instance: published.Instance, revision: published.Revision}, err
}

// configure is part of daemon.
func (p *process) configure(sources []string) (at, bool, error) {
	published, err := p.inject.Configure(sources)
	if errors.Is(err, inject.ErrRefused) {
		return at{}, false, nil
	}
	return at{instance: published.Instance, revision: published.Revision}, true, err
}

// kill is part of daemon.
func (p *process) kill(set *manifest.Set, c chance) (at, bool, error) {
	if set == nil {
		return at{}, false, errors.Join(p.process.Kill(), p.disconnect())
	}
	return p.killAt(func() (at, error) { return p.apply(*set) }, c)
}

// killConfiguring is part of reconfigurable.
func (p *process) killConfiguring(sources []string, c chance) (at, bool, error) {
	return p.killAt(func() (at, error) {
		now, ok, err := p.configure(sources)
		if !ok && err == nil {
			err = errors.ErrUnsupported
		}
		return now, err
	}, c)
}

// killAt kills it during some work, which then fails or not.
func (p *process) killAt(work func() (at, error), c chance) (at, bool, error) {
	type answer struct {
		at  at
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		now, err := work()
		answers <- answer{now, err}
	}()
	// The kill comes between the first byte of the request and some time after its answer.
	time.Sleep(time.Duration(c.intn(8000, "killed after")) * time.Microsecond)
	err := p.process.Kill()
	last := <-answers
	return last.at, last.err == nil, errors.Join(err, p.disconnect())
}

func (p *process) disconnect() error {
	err := errors.Join(p.inject.Close(), p.conn.Close())
	p.inject, p.conn = nil, nil
	return err
}

// close is part of daemon.
func (p *process) close() {
	if p.conn != nil {
		_ = p.process.Kill()
		_ = p.disconnect()
	}
}

// injected returns the set in injectd's format.
func injected(set manifest.Set) inject.Set {
	out := inject.Set{Source: set.Source}
	if set.Err != nil {
		out.Error = set.Err.Error()
	}
	for _, o := range set.Origins {
		origin := inject.Origin{Name: o.Name, Held: o.Held}
		for _, p := range o.Pods {
			origin.Pods = append(origin.Pods, p.Pod)
		}
		out.Origins = append(out.Origins, origin)
	}
	return out
}

// learnReadTimes sets the times at which the process read the sets, as far as some consumer received them. All
// other consumers must then have received the same times. The other times stay unknown.
func learnReadTimes(h *History) {
	type revision struct {
		life   int
		number uint64
	}
	reported := map[revision]time.Time{}
	for _, c := range h.Consumers {
		for _, s := range c.Streams {
			for _, u := range units(s.Received) {
				for _, up := range u.updates() {
					if at := up.GetObservedTime(); at != nil && u.cursor != nil {
						reported[revision{s.Life, u.cursor.GetRevision()}] = at.AsTime()
					}
				}
			}
		}
	}
	life, last := 0, uint64(0)
	for i := range h.Steps {
		step := &h.Steps[i]
		switch {
		case step.Start != nil:
			life, last = life+1, step.Revision
		case step.Configure != nil:
			if !step.Killed {
				last = step.Revision
			}
		case step.Killed:
			step.Set.ReadTime = reported[revision{life, last + 1}]
		default:
			step.Set.ReadTime = time.Time{}
			if step.Revision > last {
				last, step.Set.ReadTime = step.Revision, reported[revision{life, step.Revision}]
			}
		}
	}
}
