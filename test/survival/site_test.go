package survival

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// patience is the time limit for a quiet point: a failed attempt is repeated after 10 s, and machines are slow.
const patience = 60 * time.Second

// site is a pair of daemons on a node, with their manifests, and the recorder of what happens.
type site struct {
	*recorder
	t          *testing.T
	node       *devnode.Node
	name, dir  string
	podconfigd *devnode.Process
	podexecd   *devnode.Process
	exec       podexecv1.PodExecServiceClient
	cri        runtimeapi.RuntimeServiceClient

	// pods are the desired pods, by name.
	pods map[string]*pod
	made int
}

// pod is a manifest in the manifest directory.
type pod struct {
	kind
	uid, name, image string
	labels           int
}

// newSite starts a pair of daemons without manifests. When the test ends, it is stopped and its pods are
// removed. more are additional flags of podexecd.
func newSite(t *testing.T, node *devnode.Node, name string, more ...string) *site {
	t.Helper()
	s := &site{t: t, node: node, name: name, dir: node.Path(name), pods: map[string]*pod{}}
	for _, dir := range []string{s.manifests(), s.path("life")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.podconfigd, err = node.StartDaemonAs(name+"-podconfigd", "podconfigd",
		"--root-dir", s.path("podconfigd"), "--listen", "unix://"+node.Socket(name+"c"), "--hostname-override", name,
		"--pod-manifest-path", s.manifests())
	if err != nil {
		t.Fatal(err)
	}
	s.podexecd, err = node.StartDaemonAs(name+"-podexecd", "podexecd", slices.Concat([]string{
		"--root-dir", s.path("podexecd"), "--kubelet-dir", s.path("kubelet"), "--listen", "unix://" + node.Socket(name+"x"), "--hostname-override", name,
		"--podconfig-endpoint", "unix://" + node.Socket(name+"c"), "--container-runtime-endpoint", node.Endpoint(),
		"--pod-logs-dir", s.path("log", "pods"), "--crash-loop-backoff-base=200ms", "--crash-loop-backoff-max=1s",
		// Also on a simulated runtime: its containers aren't in the cgroups, but podexecd has to remove them.
		"--cgroups-per-qos=" + strconv.FormatBool(privileged()), "--cgroup-root=" + filepath.Join(node.CgroupRoot(), name+"-podexecd"),
	}, more)...)
	if err != nil {
		t.Fatal(err)
	}
	s.exec = podexecv1.NewPodExecServiceClient(s.dial("unix://" + node.Socket(name+"x")))
	s.cri = runtimeapi.NewRuntimeServiceClient(s.dial(node.Endpoint()))
	s.recorder = newRecorder()
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	group.Go(func() { s.lookOut(ctx) })
	group.Go(func() { s.follow(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
		if err := errors.Join(s.podexecd.Kill(), s.podconfigd.Kill()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("deeds:\n%s", s.account())
		}
	})
	return s
}

// dial doesn't wait. If the server doesn't answer, gRPC dials it again.
func (s *site) dial(endpoint string) *grpc.ClientConn {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *site) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

func (s *site) manifests() string { return s.path("manifests") }

// add writes the manifest of another pod of the kind, and returns its name. An image other than the node's own
// is pulled.
func (s *site) add(k kind, image string) string {
	s.made++
	p := &pod{kind: k, name: fmt.Sprintf("%s%d", k.name, s.made), image: image}
	s.pods[p.name] = p
	s.renew(p)
	return p.name
}

// renew gives the pod a new UID.
func (s *site) renew(p *pod) {
	s.made++
	old := p.uid
	p.uid = fmt.Sprintf("%s-%s-%d", s.name, p.name, s.made)
	if err := os.Mkdir(s.path("life", p.uid), 0o777); err != nil {
		s.t.Fatal(err)
	}
	s.planned(p.plan(p.uid, p.name))
	if old != "" {
		s.did(Drop, old, "replaced")
	}
	s.did(Desire, p.uid, p.kind.name)
	s.write(p)
}

// relabel changes the pod, under its UID, in a way that doesn't affect containers.
func (s *site) relabel(p *pod) {
	p.labels++
	s.did(Relabel, p.uid, "")
	s.write(p)
}

func (s *site) drop(name string) {
	p := s.pods[name]
	delete(s.pods, name)
	s.did(Drop, p.uid, "removed")
	if err := os.Remove(filepath.Join(s.manifests(), p.name+".json")); err != nil {
		s.t.Fatal(err)
	}
}

// write renames the manifest into place.
func (s *site) write(p *pod) {
	text, err := p.manifest(p.uid, p.name, s.path("life", p.uid), p.image, fmt.Sprint("v", p.labels))
	if err != nil {
		s.t.Fatal(err)
	}
	draft := filepath.Join(s.manifests(), "."+p.name)
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(draft, filepath.Join(s.manifests(), p.name+".json")); err != nil {
		s.t.Fatal(err)
	}
}

// names returns the names of the desired pods, sorted.
func (s *site) names() []string {
	names := make([]string, 0, len(s.pods))
	for name := range s.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// kill sends SIGKILL to a process.
func (s *site) kill(p *devnode.Process, deed Kind) {
	s.did(deed, "", "")
	if err := p.Kill(); err != nil {
		s.t.Fatal(err)
	}
}

// start starts a process again, unless it runs.
func (s *site) start(p *devnode.Process, deed Kind) {
	if alive(p) {
		return
	}
	s.did(deed, "", "")
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// alive reports whether a process runs.
func alive(p *devnode.Process) bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// quiet waits until the node reaches its final state, and records that look. It records the last look also at
// the time limit, so that the checkers report what is wrong.
func (s *site) quiet(patience time.Duration) error {
	return s.quietOr(patience, nil)
}

// quietOr is like quiet, but returns errInterrupted when the channel is closed.
func (s *site) quietOr(patience time.Duration, interrupt <-chan struct{}) error {
	deadline, poll := time.NewTimer(patience), time.NewTicker(100*time.Millisecond)
	defer deadline.Stop()
	defer poll.Stop()
	for {
		look, err := s.look(s.t.Context(), true)
		if err == nil {
			err = s.settled(look)
		}
		if err == nil {
			look.Quiet = true
			s.looked(look)
			return nil
		}
		select {
		case <-poll.C:
		case <-interrupt:
			return errInterrupted
		case <-deadline.C:
			if look != nil {
				look.Quiet = true
				s.looked(look)
			}
			return fmt.Errorf("not quiet within %v: %w%s", patience, err, s.ended())
		}
	}
}

var errInterrupted = errors.New("interrupted")

// ended returns the last output of the daemons that no longer run.
func (s *site) ended() string {
	var tails strings.Builder
	for _, p := range []*devnode.Process{s.podconfigd, s.podexecd} {
		if !alive(p) {
			fmt.Fprintf(&tails, "\n%s has ended; its output ends with:\n%s", p.Name, p.LogTail())
		}
	}
	return tails.String()
}

// check runs the checkers on all that happened at the site.
func (s *site) check() []*BreachError {
	s.t.Helper()
	h, err := s.whole(s.path("life"))
	if err != nil {
		s.t.Fatal(err)
	}
	return Breaches(h)
}
