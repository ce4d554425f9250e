package hazards

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
)

// The names of the daemons in commands.
const (
	podconfigd = "podconfigd"
	podexecd   = "podexecd"
)

func (s *scenario) endpoint(daemon string) string { return "unix://" + s.node.Socket(daemon) }

// args returns the flags of a start: those of the command, of the last start, or the defaults.
func (s *scenario) args(daemon string, more []string) []string {
	own := []string{"--root-dir", s.path("state", daemon), "--listen", s.endpoint(daemon), "--hostname-override", nodeName}
	if daemon == podexecd {
		own = append(own, "--podconfig-endpoint", s.endpoint(podconfigd), "--container-runtime-endpoint", s.node.Endpoint(),
			"--pod-logs-dir", s.node.Path("pods-log"), "--kubelet-dir", s.path("kubelet"))
	} else {
		// The interval of full readings is short, because most scenarios depend on full readings.
		own = append(own, "--file-check-frequency=200ms")
		if len(more) == 0 {
			more = []string{"--pod-manifest-path=" + s.path("manifests")}
		}
	}
	return slices.Concat(own, more)
}

func start(s *scenario, d *datadriven.TestData) string {
	name, flags := s.arg(d, 0), lines(d.Input)
	p := s.daemons[name]
	switch {
	case name != podconfigd && name != podexecd:
		d.Fatalf(s.t, "%q isn't a daemon", name)
	case p == nil:
		var err error
		p, err = s.node.StartDaemon(name, s.args(name, flags)...)
		s.check(err)
		s.daemons[name] = p
	default:
		if len(flags) > 0 {
			p.Args = s.args(name, flags)
		}
		s.check(p.Start())
	}
	s.check(devnode.WaitServing(s.t.Context(), p, s.endpoint(name)))
	if name == podconfigd {
		s.awaitReadings(map[string]time.Time{})
		s.viewer.open()
	}
	return ""
}

func stop(s *scenario, d *datadriven.TestData) string {
	s.beforeEnd(s.arg(d, 0))
	s.check(s.daemon(d).Stop())
	return ""
}

func kill(s *scenario, d *datadriven.TestData) string {
	s.beforeEnd(s.arg(d, 0))
	s.check(s.daemon(d).Kill())
	return ""
}

func reboot(s *scenario, _ *datadriven.TestData) string {
	s.viewer.close()
	for _, p := range []*devnode.Process{s.daemons[podexecd], s.daemons[podconfigd], s.node.Runtime()} {
		if p != nil {
			s.check(p.Kill())
		}
	}
	s.check(s.node.Runtime().Start())
	s.check(s.node.WaitReady(s.t.Context()))
	return ""
}

func (s *scenario) daemon(d *datadriven.TestData) *devnode.Process {
	p := s.daemons[s.arg(d, 0)]
	if p == nil {
		d.Fatalf(s.t, "%s wasn't started", s.arg(d, 0))
	}
	return p
}

// beforeEnd ends the consumer of ops without an error, so that its last revision is known.
func (s *scenario) beforeEnd(daemon string) {
	if daemon == podconfigd {
		s.viewer.close()
	}
}

// awaitReadings waits until each source has been read since the given time (or ever), and the result has been
// published.
func (s *scenario) awaitReadings(since map[string]time.Time) {
	s.t.Helper()
	s.eventually("every source is read", func(ctx context.Context) error {
		resp, err := s.config.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
		if err != nil {
			return err
		}
		var ready uint64
		for _, src := range resp.GetSources() {
			ready = max(ready, src.GetReadyRevision())
			if reads(src.GetName()) && !src.GetLastReadTime().AsTime().After(since[src.GetName()]) || src.GetLastReadTime() == nil {
				return fmt.Errorf("%s was last read at %v", src.GetName(), src.GetLastReadTime().AsTime())
			}
		}
		list, err := s.config.ListPods(ctx, &podconfigv1.ListPodsRequest{PageSize: 1, Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
		if err == nil && list.GetRevision() < ready {
			err = fmt.Errorf("revision %d of %d is published", list.GetRevision(), ready)
		}
		return err
	})
}

// reads reports whether a source is read in full at intervals.
func reads(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	return kind == "file" || kind == "http"
}

// eventually polls until there is no error.
func (s *scenario) eventually(what string, ask func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			s.t.Fatalf("not within %v: %s: %v", patience, what, last)
		}
	}
}

func dial(t testing.TB, endpoint string) *grpc.ClientConn {
	t.Helper()
	// The connection waits for a daemon that starts, or starts again.
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
