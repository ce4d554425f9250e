package robustness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The limits of the daemon of a simulation. They are small, so that consumers often fall behind the history.
const (
	localRevisions = 8
	// localTombstones is more than a run removes: from a cursor that is older than all tombstones, the daemon
	// uses known_pods, and its messages don't show whether a pod was left out.
	// TestG7CursorOlderThanTheTombstones of the service covers that case.
	localTombstones = 1024
)

// window is how much of a stream the transport accepts from the daemon while the consumer doesn't read: the
// smallest that gRPC allows.
const window = 64 << 10

// local is podconfigd in this process, from the merge to the gRPC server. A kill abandons it: the next start
// uses a copy of the store's file as it was at that moment, and shares nothing else with it.
type local struct {
	dir   string
	lives int
	clock *testingclock.FakeClock
	// confirm is service.Config.Confirm.
	confirm func(source string, nodes []string) uint64
	// The rest belongs to one start.
	file   string
	hub    *mergesvc.Hub
	server *grpc.Server
	conn   *grpc.ClientConn
	// stop ends what still runs after the server has stopped.
	stop func()
}

func newLocal(dir string) *local {
	return &local{dir: dir, clock: testingclock.NewFakeClock(time.Unix(1_700_000_000, 0))}
}

// start is part of daemon.
func (l *local) start(sources []string, kept bool) (at, error) {
	l.lives++
	file := filepath.Join(l.dir, fmt.Sprintf("life%d.db", l.lives))
	if kept && l.file != "" {
		if err := os.Rename(l.file, file); err != nil {
			return at{}, err
		}
	}
	l.file = file
	l.hub = mergesvc.NewHub(mergesvc.Config{
		Sources: sourcesOf(sources), Revisions: localRevisions, Tombstones: localTombstones,
		Store: &store.Config{Path: file, Tombstones: localTombstones, NoSync: true},
	})
	svc := service.New(service.Config{History: l.hub.History(), Sources: l.hub.Sources, Clock: l.clock, Confirm: l.confirm})
	l.server = grpc.NewServer(
		grpc.ForceServerCodecV2(wire.NewCodec()), grpc.StreamInterceptor(asRoot), grpc.WaitForHandlers(true),
		grpc.InitialWindowSize(window),
	)
	podconfigv1.RegisterPodConfigServiceServer(l.server, svc)
	pipe := bufconn.Listen(window)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { l.hub.Run(ctx) })
	all.Go(func() { svc.Run(ctx) })
	all.Go(func() { _ = l.server.Serve(pipe) })
	l.stop = func() {
		cancel()
		all.Wait()
	}
	var err error
	l.conn, err = grpc.NewClient("passthrough:///local",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(window),
	)
	return l.at(), err
}

// asRoot makes every caller root, as SO_PEERCRED would report it.
func asRoot(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	caller := access.Caller{Identity: "uid:0", Role: access.Consumer, Peer: "uid:0"}
	return handler(srv, rootStream{ss, access.NewContext(ss.Context(), caller)})
}

type rootStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s rootStream) Context() context.Context { return s.ctx }

// api is part of daemon.
func (l *local) api() podconfigv1.PodConfigServiceClient {
	return podconfigv1.NewPodConfigServiceClient(l.conn)
}

// revisions is part of lossy.
func (l *local) revisions() int { return localRevisions }

// collect is part of lossy. A wire.Later refers weakly to the pods that it hasn't sent.
func (l *local) collect() { runtime.GC() }

// hurry is part of daemon.
func (l *local) hurry() bool {
	l.clock.Step(2 * time.Second)
	return true
}

// apply is part of daemon.
func (l *local) apply(set manifest.Set) (at, error) {
	l.hub.Apply(set)
	return l.at(), nil
}

// configure is part of daemon.
func (l *local) configure(sources []string) (at, bool, error) {
	l.hub.Configure(sourcesOf(sources))
	return l.at(), true, nil
}

func sourcesOf(names []string) []merge.Source {
	var out []merge.Source
	for _, name := range names {
		out = append(out, merge.Source{Name: name})
	}
	return out
}

func (l *local) at() at {
	st := l.hub.History().Instance()
	return at{instance: st.ID, revision: l.hub.History().Number(), temporary: st.Temporary}
}

// kill is part of daemon.
func (l *local) kill(set *manifest.Set, c chance) (at, bool, error) {
	if set == nil {
		return l.killAt(nil, c)
	}
	return l.killAt(func() { l.hub.Apply(*set) }, c)
}

// killConfiguring is part of reconfigurable.
func (l *local) killConfiguring(sources []string, c chance) (at, bool, error) {
	return l.killAt(func() { l.hub.Configure(sourcesOf(sources)) }, c)
}

// killAt kills it during some work, which is then lost, or committed and not seen by a consumer, or published.
// A nil work means between two steps.
func (l *local) killAt(work func(), c chance) (at, bool, error) {
	when := 0
	if work != nil {
		when = c.intn(3, "killed when")
	}
	if when == 2 {
		work()
	}
	l.server.Stop()
	_ = l.conn.Close()
	if when == 1 {
		work()
	}
	// No commit is under way. Later writes of the abandoned store to its file have no effect.
	after := l.file + ".after"
	err := copyFile(after, l.file)
	l.stop()
	l.file, l.hub = after, nil
	return at{}, false, err
}

// close is part of daemon.
func (l *local) close() {
	if l.hub != nil {
		l.server.Stop()
		_ = l.conn.Close()
		l.stop()
	}
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}
