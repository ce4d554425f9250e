package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an event that must come.
const patience = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is a kubelet's directory with a Manager on it.
type node struct {
	*Manager
	dir string
	log logtest.Buffer
	// kind is that of the types CSIPlugin (one for each name unless its version is higher) and DRAPlugin (the newest serves).
	kind *fakeKind
}

// newNode returns a node whose Manager doesn't run yet.
func newNode(t *testing.T, c clock.WithTicker) *node {
	t.Helper()
	// t.TempDir is too long for the names of sockets.
	dir, err := os.MkdirTemp("", "plugins")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{dir: dir, kind: &fakeKind{events: make(chan string, 1000)}}
	n.Manager = New(Config{
		Dir: dir, Clock: c, Log: slog.New(slog.NewTextHandler(&n.log, nil)),
		Kinds: map[string]Kind{CSIPlugin: n.kind, DRAPlugin: rolling{n.kind}},
	})
	must(t, os.MkdirAll(n.root, 0o750))
	must(t, os.MkdirAll(n.plugins, 0o750))
	return n
}

// run runs the Manager until the test ends, or until stop is called.
func (n *node) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Log(n.log.String())
		}
	})
	return stop
}

// want fails the test unless the Kind's next events are those, in any order.
func (n *node) want(t *testing.T, events ...string) {
	t.Helper()
	for len(events) > 0 {
		select {
		case got := <-n.kind.events:
			at := slices.Index(events, got)
			if at < 0 {
				t.Fatalf("event %q; want %q", got, events)
			}
			events = slices.Delete(events, at, at+1)
		case <-time.After(patience):
			t.Fatalf("no event; want %q", events)
		}
	}
}

// await waits until the condition holds, after each event of the log or the Manager's state.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("timed out: %s", what)
		}
	}
}

// fakeKind reports what the Manager does with plugins: "use NAME ENDPOINT", "drop ...", "close ...".
type fakeKind struct {
	events chan string
	mu     sync.Mutex
	// refuse is the reason why Open fails, by name. hang has the names whose Open waits for its context.
	refuse map[string]string
	hang   map[string]bool
	// block has the names whose Open waits for the channel, whatever its context says, and then is successful.
	block map[string]chan struct{}
}

func (k *fakeKind) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *fakeKind) Admit(next, current Plugin) error {
	if next.Versions[0] > current.Versions[0] {
		return nil
	}
	return fmt.Errorf("the name is in use by version %s", current.Versions[0])
}

func (k *fakeKind) Open(ctx context.Context, p Plugin) (Instance, error) {
	k.mu.Lock()
	refuse, hang, block := k.refuse[p.Name], k.hang[p.Name], k.block[p.Name]
	k.mu.Unlock()
	if block != nil {
		<-block
	}
	if hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if refuse != "" {
		return nil, errors.New(refuse)
	}
	return &fakeInstance{k, p.Name + " " + filepath.Base(p.Endpoint.String())}, nil
}

// rolling is a fakeKind whose newest plugin serves.
type rolling struct{ *fakeKind }

func (rolling) Admit(next, current Plugin) error { return NewestServes(next, current) }

type fakeInstance struct {
	kind *fakeKind
	name string
}

func (i *fakeInstance) Use()   { i.kind.events <- "use " + i.name }
func (i *fakeInstance) Drop()  { i.kind.events <- "drop " + i.name }
func (i *fakeInstance) Close() { i.kind.events <- "close " + i.name }

// plugin is a fake registrar and the socket of its service.
type plugin struct {
	registration.UnimplementedRegistrationServer
	info *registration.PluginInfo
	// told receives each NotifyRegistrationStatus.
	told chan *registration.RegistrationStatus
	// asked receives a token for each GetInfo, if it has room.
	asked chan struct{}
	// fail is the error of NotifyRegistrationStatus.
	mu   sync.Mutex
	fail error
	// stop ends the process and removes its socket. die leaves the socket.
	stop, die func()
}

func (p *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	select {
	case p.asked <- struct{}{}:
	default:
	}
	return p.info, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	p.told <- s
	return &registration.RegistrationStatusResponse{}, nil
}

// listen makes a socket that goes away with the test.
func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.UnixListener)
}

// info is what a good plugin answers. endpoint is the name of its socket in plugins, which is made.
func (n *node) info(t *testing.T, kind, name, endpoint string, versions ...string) *registration.PluginInfo {
	t.Helper()
	path := filepath.Join(n.plugins, endpoint)
	if _, err := os.Lstat(path); err != nil {
		listen(t, path)
	}
	return &registration.PluginInfo{Type: kind, Name: name, Endpoint: path, SupportedVersions: versions}
}

// start starts a registrar at a path relative to the registry.
func (n *node) start(t *testing.T, rel string, info *registration.PluginInfo) *plugin {
	t.Helper()
	p := &plugin{info: info, told: make(chan *registration.RegistrationStatus, 100), asked: make(chan struct{}, 1)}
	l := listen(t, filepath.Join(n.root, rel))
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, p)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	p.stop = sync.OnceFunc(func() { server.Stop(); <-done }) // It removes the socket.
	p.die = func() { l.SetUnlinkOnClose(false); p.stop() }
	t.Cleanup(p.stop)
	return p
}

// accepted fails the test unless the plugin is told that it is registered.
func (p *plugin) accepted(t *testing.T) {
	t.Helper()
	select {
	case s := <-p.told:
		if !s.GetPluginRegistered() || s.GetError() != "" {
			t.Fatalf("the plugin is told %v", s)
		}
	case <-time.After(patience):
		t.Fatal("the plugin is told nothing")
	}
}

// refused fails the test unless the plugin is told that it isn't registered, for a reason that has the words.
func (p *plugin) refused(t *testing.T, words string) {
	t.Helper()
	select {
	case s := <-p.told:
		if s.GetPluginRegistered() || !strings.Contains(s.GetError(), words) {
			t.Fatalf("the plugin is told %v; want a reason with %q", s, words)
		}
	case <-time.After(patience):
		t.Fatal("the plugin is told nothing")
	}
}
