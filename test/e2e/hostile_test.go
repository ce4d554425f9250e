package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/access/accesstest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// promptly is how soon a change reaches an honest consumer, whatever others do. It takes a few milliseconds at rest; the rest
	// is for a machine that is as busy with the attack as podconfigd is.
	promptly = 2 * time.Second
	// attacker is the address that attacks over TCP come from: limits are counted by it. The slow ones, which go on during the
	// others, and the flood have their own.
	attacker, slowly, flooder = "127.0.0.2", "127.0.0.3", "127.0.0.4"
	// peerConnections is how many connections podconfigd lets one peer have.
	peerConnections = 1024
)

// pulse is a change that the test made: the number that the pod of that source then had.
type pulse struct {
	source string
	number int
}

// honest is a consumer that watches all the time and notes the pulses that it is told.
type honest struct {
	name    string
	sources []string
	got     chan pulse
	broke   chan error
	// streams counts how often it was told that it is synced: one if it has noticed nothing.
	streams atomic.Int32
	// missed are the pulses that it is to be told once it is back from where it was sent.
	away   bool
	missed []pulse
}

// crowd is some honest consumers and the pulses that they see.
type crowd struct {
	t       *testing.T
	e       *exposed
	members []*honest
	number  int
	slowest time.Duration
}

func newCrowd(t *testing.T, e *exposed) *crowd { return &crowd{t: t, e: e} }

func (c *crowd) join(name string, sources []string, run func(context.Context, *honest) error) *honest {
	c.t.Helper()
	h := &honest{name: name, sources: sources, got: make(chan pulse, 10_000), broke: make(chan error, 1)}
	c.members = append(c.members, h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.broke <- run(ctx, h)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-ended
	})
	until(c.t, patience, name+" is synced", func() error {
		if h.streams.Load() == 0 {
			return errors.New("it isn't")
		}
		return nil
	})
	return h
}

// watch has a consumer join that uses package client.
func (c *crowd) watch(name string, cfg client.Config, sources ...string) *honest {
	c.t.Helper()
	return c.join(name, sources, func(ctx context.Context, h *honest) error {
		own, err := client.New(cfg)
		if err != nil {
			return err
		}
		defer own.Close()
		return own.Watch(ctx, client.WatchOptions{}, func(_ context.Context, event client.Event) error {
			if event.Synced {
				h.streams.Add(1)
			}
			for _, op := range event.Ops {
				for _, p := range op.Pods {
					if strings.HasPrefix(string(p.UID), "pulse-") {
						h.note(p.Source, p.Object.GetLabels())
					}
				}
			}
			return nil
		})
	})
}

// subscribe has a consumer join that uses the service as it is: one stream, and no second.
func (c *crowd) subscribe(name string, api podconfigv1.PodConfigServiceClient) *honest {
	c.t.Helper()
	return c.join(name, []string{"file", "other"}, func(ctx context.Context, h *honest) error {
		watch, err := api.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
			Consumer: name, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		})
		if err != nil {
			return err
		}
		for {
			msg, err := watch.Recv()
			if err != nil {
				return err
			}
			if msg.GetSynced() != nil {
				h.streams.Add(1)
			}
			for _, p := range msg.GetUpdate().GetPods() {
				object := &v1.Pod{}
				if err := object.Unmarshal(p.GetProtobuf()); err != nil {
					return err
				}
				if strings.HasPrefix(p.GetRef().GetUid(), "pulse-") {
					h.note(p.GetSource(), object.Labels)
				}
			}
		}
	})
}

func (h *honest) note(source string, labels map[string]string) {
	number, err := strconv.Atoi(labels["pulse"])
	if err != nil {
		number = -1 // which nobody expects
	}
	h.got <- pulse{strings.TrimPrefix(source, "file:"), number}
}

// pulse changes a pod of each source, and waits until each consumer has been told of those that it sees: once, and of nothing else.
func (c *crowd) pulse() {
	c.number++
	began := time.Now()
	for _, source := range []string{"file", "other"} {
		pod := strings.Replace(manifest("pulse-"+source, "main: sleep"), "metadata:\n",
			fmt.Sprintf("metadata:\n  uid: pulse-%s\n  labels: {pulse: '%d'}\n", source, c.number), 1)
		if err := c.e.put(source, "pulse.yaml", pod); err != nil {
			c.t.Error(err)
			return
		}
	}
	for _, h := range c.members {
		for _, source := range h.sources {
			h.missed = append(h.missed, pulse{source, c.number})
		}
		if !h.away {
			c.settle(h, promptly)
		}
	}
	c.slowest = max(c.slowest, time.Since(began))
}

// settle waits until the consumer has been told all that it is to be told.
func (c *crowd) settle(h *honest, limit time.Duration) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	want := map[pulse]bool{}
	for _, p := range h.missed {
		want[p] = true
	}
	h.missed = nil
	for len(want) > 0 {
		select {
		case p := <-h.got:
			if !want[p] {
				c.t.Errorf("%s is told of %v a second time, or out of turn", h.name, p)
			}
			delete(want, p)
		case err := <-h.broke:
			h.broke <- err
			c.t.Errorf("the stream of %s ended: %v", h.name, err)
			return
		case <-deadline.C:
			c.t.Errorf("%s isn't told of %v within %v", h.name, want, limit)
			return
		}
	}
}

// during changes pods without a pause while attack runs.
func (c *crowd) during(attack func()) {
	c.t.Helper()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(50 * time.Millisecond)
		defer pace.Stop()
		for {
			c.pulse()
			select {
			case <-over:
				c.pulse()
				return
			case <-pace.C:
			}
		}
	}()
	defer func() {
		close(over)
		<-done
	}()
	attack()
}

// leave says that these consumers lose their streams now, until rejoin has seen that they missed nothing.
func (c *crowd) leave(members ...*honest) {
	for _, h := range members {
		h.away = true
	}
}

func (c *crowd) rejoin(members ...*honest) {
	c.t.Helper()
	for _, h := range members {
		h.away = false
		c.settle(h, patience)
	}
}

// vitals are what a process takes. Memory is in KiB.
type vitals struct{ rss, peak, fds, goroutines int }

func (e *exposed) vitals() (v vitals, err error) {
	proc := fmt.Sprintf("/proc/%d/", e.daemon.Pid())
	text, err := os.ReadFile(proc + "status")
	if err != nil {
		return v, err
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &v.rss)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &v.peak)
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		return v, err
	}
	goroutines, err := metricOn(e.metrics, "go_goroutines")
	v.fds, v.goroutines = len(fds), int(goroutines)
	return v, err
}

// asUser runs do as another user, as the kernel sees it: on a thread that is that user's, and then ours again.
func asUser(uid int, do func()) error {
	own, ended := os.Geteuid(), make(chan error, 1)
	go func() {
		// A thread that can't be made ours again ends with this goroutine, as it is never unlocked.
		runtime.LockOSThread()
		become := func(uid int) error {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				return fmt.Errorf("become user %d: %w", uid, errno)
			}
			return nil
		}
		err := become(uid)
		if err == nil {
			do()
			err = become(own)
		}
		if err == nil {
			runtime.UnlockOSThread()
		}
		ended <- err
	}()
	return <-ended
}

// TestG8NobodyNoticesAnAttack: whatever is done to a podconfigd that can be reached by anybody, it is refused or answered as
// documented, consumers that were there before are told of each change promptly and once, and nothing of the attack stays.
func TestG8NobodyNoticesAnAttack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it takes root to call as other users; run: sudo go test -run TestG8 ./test/e2e")
	}
	e := newExposed(t)
	for i := range 40 {
		check(t, e.put("file", fmt.Sprintf("large%d.yaml", i), strings.Replace(manifest(fmt.Sprintf("large%d", i), "main: sleep"), "metadata:\n",
			"metadata:\n  annotations: {ballast: "+strings.Repeat("x", 20<<10)+"}\n", 1)))
	}
	c := newCrowd(t, e)
	c.watch("local", client.Config{Endpoint: "unix://" + e.socket, Consumer: "local"}, "file", "other")
	c.watch("agent", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "agent")}, "file", "other")
	c.watch("narrow", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "narrow")}, "other")
	c.subscribe("raw", e.local)
	c.subscribe("looker", e.identified("looker", "127.0.0.1"))
	c.during(func() {
		_, err := listReferences(t.Context(), e.identified("agent", attacker))
		check(t, err)
	})
	// Go gives memory back once it has collected garbage, and how much it keeps depends on the work: so that is done before and after.
	exercise := func() error {
		for range 50 {
			if _, err := e.local.ListPods(t.Context(), &podconfigv1.ListPodsRequest{}); err != nil {
				return err
			}
		}
		return nil
	}
	check(t, exercise())
	before, err := e.vitals()
	check(t, err)
	t.Logf("at rest: %+v; a change took %v", before, c.slowest)

	// What takes its time is under way during all the rest.
	silence := beSilent(t, e)
	deaf := beDeaf(t, e.forTest(t), 20)
	for _, attack := range []struct {
		name string
		run  func(t *testing.T, e *exposed)
	}{
		{"no role", withoutRole},
		{"no certificate that counts", withoutCertificate},
		{"100 MiB requests", largeRequests},
		{"garbage", garbage},
		{"G7 any cursor", anyCursor},
		{"flood of requests", floodRequests},
		{"flood of connections", floodConnections},
		{"silence", silence},
		{"deafness", deaf},
	} {
		t.Run(attack.name, func(t *testing.T) {
			c.slowest = 0
			check(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", e.daemon.Pid()), []byte("5"), 0)) // a new peak of memory
			c.during(func() { attack.run(t, e.forTest(t)) })
			now, err := e.vitals()
			check(t, err)
			t.Logf("%+v; the slowest change took %v", now, c.slowest)
			if limit := before.rss + 96<<10; now.peak > limit {
				t.Errorf("podconfigd took %d KiB at its peak; want %d at most", now.peak, limit)
			}
		})
	}
	for _, h := range c.members {
		if n := h.streams.Load(); n != 1 {
			t.Errorf("%s needed %d streams; want one", h.name, n)
		}
	}
	var after vitals
	until(t, patience, "nothing of the attacks is left", func() (err error) {
		if err = exercise(); err != nil {
			return err
		}
		after, err = e.vitals()
		if err == nil && (after.fds > before.fds+4 || after.goroutines > before.goroutines+10 || after.rss > before.rss+64<<10) {
			err = fmt.Errorf("podconfigd has %+v; it had %+v", after, before)
		}
		return err
	})
	c.pulse()
	t.Logf("after all: %+v", after)
}

// withoutRole calls as somebody whom the access file doesn't know, or for what isn't for his role.
func withoutRole(t *testing.T, e *exposed) {
	for _, caller := range []struct {
		api   podconfigv1.PodConfigServiceClient
		words string
	}{
		{e.identified("stranger", attacker), "no role for CN=stranger; the access file (--access-file) gives roles"},
		{e.user(strangerUID), "no role for uid 65533; the access file (--access-file) gives roles, and --allow-uid the role consumer"},
	} {
		_, err := listReferences(t.Context(), caller.api)
		refusal(t, "a list without a role", err, codes.PermissionDenied, caller.words)
		watch, err := caller.api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
		check(t, err)
		_, err = watch.Recv()
		refusal(t, "a stream without a role", err, codes.PermissionDenied, caller.words)
		// Who doesn't take no for an answer loses the connection, and makes a new one.
		for range 300 {
			if _, err := listReferences(t.Context(), caller.api); err == nil {
				t.Error("one of many calls without a role is answered; want none to be")
			}
		}
	}
	_, err := e.user(inspectorUID).ReportApplied(t.Context(), &podconfigv1.ReportAppliedRequest{})
	refusal(t, "an inspector's report", err, codes.PermissionDenied, "is for the role consumer")
	for _, impostor := range []struct {
		api         podconfigv1.PodConfigServiceClient
		name, words string
	}{
		{e.identified("narrow", attacker), "agent", `consumer: "agent" isn't "narrow", nor does it begin with "narrow/"`},
		{e.user(inspectorUID), "agent", `consumer: "agent" is in use by agent`},
		{e.user(inspectorUID), "local", `consumer: "local" is in use by uid:0`},
	} {
		watch, err := impostor.api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Consumer: impostor.name})
		check(t, err)
		_, err = watch.Recv()
		refusal(t, "a stream under another's name", err, codes.PermissionDenied, impostor.words)
	}
	// What is out of scope doesn't exist.
	_, err = e.identified("narrow", attacker).GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "pulse-file"}})
	refusal(t, "a pod out of scope", err, codes.NotFound, "")
	list, err := e.identified("narrow", attacker).ListPods(t.Context(), &podconfigv1.ListPodsRequest{})
	if err != nil || len(list.GetPods()) != 1 || list.GetPods()[0].GetSource() != "file:other" {
		t.Errorf("a list within a scope has %d pods, %v; want the one of file:other", len(list.GetPods()), err)
	}
}

// withoutCertificate connects with certificates that don't count, and with none.
func withoutCertificate(t *testing.T, e *exposed) {
	agent := accesstest.Request{CommonName: "agent"}
	expired := accesstest.Request{CommonName: "agent", NotAfter: time.Now().Add(-time.Minute)}
	e.turnedAway(t, "an expired certificate", e.ca.Client(e.ca, expired), "tls: expired certificate")
	e.turnedAway(t, "another authority's certificate", e.ca.Client(accesstest.NewCA(t, "first"), agent), "tls: unknown certificate authority")
	e.turnedAway(t, "a server's certificate", e.ca.Client(e.ca, accesstest.Request{CommonName: "agent", Server: true}), "tls: bad certificate")
	e.turnedAway(t, "no certificate", e.ca.Client(nil, agent), "tls: certificate required")
	old := e.ca.Client(e.ca, agent)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	e.turnedAway(t, "TLS 1.1", old, "tls: protocol version not supported")
	_, err := listReferences(t.Context(), e.remote(insecure.NewCredentials(), attacker))
	refusal(t, "plaintext", err, codes.Unavailable, "")
}

// largeRequests sends what is far over the limit for one message.
func largeRequests(t *testing.T, e *exposed) {
	ballast := strings.Repeat("x", 100<<20)
	for _, api := range []podconfigv1.PodConfigServiceClient{e.user(inspectorUID), e.identified("agent", attacker)} {
		_, err := api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{PageToken: ballast})
		refusal(t, "a list of 100 MiB", err, codes.ResourceExhausted, "received message larger than max (104857605 vs. 4194304)")
		watch, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{KnownPods: []*podconfigv1.KnownPod{{Uid: ballast}}})
		if err == nil {
			_, err = watch.Recv()
		}
		refusal(t, "a stream of 100 MiB", err, codes.ResourceExhausted, "received message larger than max")
	}
}

// awaitEnd reads until the other side closes.
func awaitEnd(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buffer := make([]byte, 512)
	for {
		if _, err := conn.Read(buffer); errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("still open: %w", err)
		} else if err != nil {
			return nil //nolint:nilerr // However it ends, it has ended.
		}
	}
}

// garbage sends noise where TLS and HTTP/2 are spoken, and after the first words of HTTP/2.
func garbage(t *testing.T, e *exposed) {
	noise := rand.NewChaCha8([32]byte{})
	for i := range 100 {
		from := []string{"", attacker}[i%2]
		conn, err := e.connect(strangerUID, from)
		check(t, err)
		if i%4 == 0 {
			_, _ = io.WriteString(conn, http2.ClientPreface)
		}
		data := make([]byte, 64<<10)
		_, _ = noise.Read(data)
		// It may well be closed before it has taken all.
		_, _ = conn.Write(data)
		if err := awaitEnd(conn); err != nil {
			t.Errorf("a connection from %q that talks nonsense: %v; want it closed", from, err)
		}
		_ = conn.Close()
	}
}

// anyCursor resumes from places that never were: each is answered on the stream itself, and leads to the current state (G7).
func anyCursor(t *testing.T, e *exposed) {
	ask := func(req *podconfigv1.WatchPodUpdatesRequest) (ops []string, pods []*podconfigv1.Pod, at *podconfigv1.Cursor) {
		t.Helper()
		req.Format = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		watch, err := e.local.WatchPodUpdates(ctx, req)
		check(t, err)
		for {
			msg, err := watch.Recv()
			if err != nil {
				t.Fatalf("resume after %v: %v; want an answer", req.GetResumeAfter(), err)
			}
			if msg.GetSynced() != nil {
				return ops, pods, msg.GetCursor()
			}
			ops, pods = append(ops, msg.GetUpdate().GetOp().String()), append(pods, msg.GetUpdate().GetPods()...)
		}
	}
	_, held, here := ask(&podconfigv1.WatchPodUpdatesRequest{})
	_, _, filtered := ask(&podconfigv1.WatchPodUpdatesRequest{Filter: &podconfigv1.PodFilter{Names: []string{"other"}}})
	var known []*podconfigv1.KnownPod
	for _, p := range held {
		// The pulses go on, so these alone may have changed.
		if !strings.HasPrefix(p.GetRef().GetUid(), "pulse-") {
			known = append(known, &podconfigv1.KnownPod{
				Uid: p.GetRef().GetUid(), Source: p.GetSource(), SpecDigest: p.GetSpecDigest(), StatusDigest: p.GetStatusDigest(),
			})
		}
	}
	for name, cursor := range map[string]*podconfigv1.Cursor{
		"the future":       {InstanceId: here.GetInstanceId(), Revision: here.GetRevision() + 1_000_000, View: here.GetView()},
		"the end of time":  {InstanceId: here.GetInstanceId(), Revision: 1<<64 - 1, View: here.GetView()},
		"another view":     filtered,
		"another instance": {InstanceId: "11111111-2222-3333-4444-555555555555", Revision: 1, View: here.GetView()},
		"nowhere":          {},
	} {
		ops, pods, at := ask(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursor})
		foreign := func(op string) bool { return op != podconfigv1.PodOperation_POD_OPERATION_SET.String() }
		if slices.ContainsFunc(ops, foreign) || len(pods) != len(held) || at.GetInstanceId() != here.GetInstanceId() {
			t.Errorf("a cursor of %s: %v of %d pods, up to %v; want a SET of %d", name, ops, len(pods), at, len(held))
		}
		ops, pods, _ = ask(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursor, KnownPods: known})
		for _, p := range pods {
			if !strings.HasPrefix(p.GetRef().GetUid(), "pulse-") {
				t.Errorf("a cursor of %s, of a consumer that holds all: it is told of %v; want nothing", name, p.GetRef())
			}
		}
		if len(pods) != 2 {
			t.Errorf("a cursor of %s, of a consumer that lacks two pods: %v of %d pods; want those two", name, ops, len(pods))
		}
	}
}

// floodRequests calls as often as it can, on both sides.
func floodRequests(t *testing.T, e *exposed) {
	for peer, api := range map[string]podconfigv1.PodConfigServiceClient{
		fmt.Sprint("uid:", inspectorUID): e.user(inspectorUID), attacker: e.identified("looker", attacker),
	} {
		words := fmt.Sprintf("more than 500 requests a second from %s; try again later", peer)
		var answered, refused atomic.Int32
		began := time.Now()
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for range 500 {
					_, err := api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
					if err == nil {
						answered.Add(1)
						continue
					}
					refused.Add(1)
					refusal(t, "a call too many", err, codes.ResourceExhausted, words)
				}
			})
		}
		callers.Wait()
		most := 2000 + int32(500*time.Since(began).Seconds()) + 1
		t.Logf("of %s %d calls were answered, %d refused", peer, answered.Load(), refused.Load())
		if n := answered.Load(); n < 1500 || n > most || refused.Load() == 0 {
			t.Errorf("of %s %d calls are answered and %d refused; want 2000 at once and 500 a second, %d in all", peer, n, refused.Load(), most)
		}
	}
}

// floodConnections makes 10,000 connections of one peer, on the socket and over TCP, and holds those that it gets.
func floodConnections(t *testing.T, e *exposed) {
	const flood = 10_000
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur = limit.Max; limit.Max < flood+1000 {
		t.Skipf("a process may have %d open files here; run `ulimit -n 20000` before", limit.Max)
	}
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	const series = `podstream_grpc_refused_total{reason="connections_per_peer"}`
	for _, from := range []string{"", flooder} {
		before, err := metricOn(e.metrics, series)
		check(t, err)
		ends := make(chan error, flood)
		var open []net.Conn
		for range flood {
			conn, err := e.connect(floodUID, from)
			check(t, err)
			open = append(open, conn)
			go func() {
				if from == "" {
					_, _ = io.WriteString(conn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
				}
				ends <- awaitEnd(conn)
			}()
		}
		for range flood - peerConnections {
			check(t, <-ends)
		}
		_, err = listReferences(t.Context(), e.identified("agent", attacker))
		check(t, err)
		_, err = listReferences(t.Context(), e.user(inspectorUID))
		check(t, err)
		now, err := e.vitals()
		check(t, err)
		t.Logf("with %d connections from %q: %+v", peerConnections, from, now)
		refused, err := metricOn(e.metrics, series)
		check(t, err)
		if got := int(refused - before); got != flood-peerConnections {
			t.Errorf("%d connections from %q are counted as refused; want %d", got, from, flood-peerConnections)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
		for range peerConnections {
			<-ends
		}
	}
}

// beSilent makes connections that say nothing, or nothing after their first word. The returned function waits until they are closed.
func beSilent(t *testing.T, e *exposed) func(*testing.T, *exposed) {
	began := time.Now()
	type end struct {
		what string
		took time.Duration
		err  error
	}
	ends := make(chan end, 10)
	conns := map[string]net.Conn{}
	for what, from := range map[string]string{"nothing on the socket": "", "half a greeting on the socket": "", "nothing over TCP": slowly} {
		conn, err := e.connect(inspectorUID, from)
		check(t, err)
		if strings.HasPrefix(what, "half") {
			_, err = io.WriteString(conn, http2.ClientPreface[:10])
			check(t, err)
		}
		conns[what] = conn
	}
	cfg := e.ca.Client(e.ca, accesstest.Request{CommonName: "agent"})
	cfg.NextProtos = []string{"h2"}
	secured, err := tls.Dial("tcp", e.tcp, cfg)
	check(t, err)
	conns["nothing after TLS"] = secured
	for what, conn := range conns {
		go func() {
			err := awaitEnd(conn)
			_ = conn.Close()
			ends <- end{what, time.Since(began), err}
		}()
	}
	return func(t *testing.T, _ *exposed) {
		for range conns {
			if got := <-ends; got.err != nil || got.took < 5*time.Second || got.took > 20*time.Second {
				t.Errorf("a client that says %s is sent away after %v, %v; want about 10 s", got.what, got.took, got.err)
			}
		}
	}
}

// beDeaf makes consumers that never read. The returned function sees that they are parked, and that one that reads again is
// brought to the current state.
func beDeaf(t *testing.T, deafened *exposed, consumers int) func(*testing.T, *exposed) {
	var watches []grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
	for i := range consumers {
		// One half reads what comes on the connection, but not the stream; the other one reads nothing at all.
		name, api := "agent/deaf", deafened.identified("agent", slowly)
		if i%2 == 1 {
			name, api = "deaf", deafened.dialWith(insecure.NewCredentials(), func(context.Context, string) (net.Conn, error) {
				conn, err := deafened.connect(inspectorUID, "")
				return &deafConn{Conn: conn, hears: 1 << 10, closed: make(chan struct{})}, err
			})
		}
		watch, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Consumer: name})
		check(t, err)
		watches = append(watches, watch)
	}
	return func(t *testing.T, e *exposed) {
		defer deafened.hangUp()
		until(t, patience, "the deaf are parked", func() error {
			resp, err := e.local.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
			if err != nil {
				return err
			}
			parked := 0
			for _, c := range resp.GetConsumers() {
				deaf := strings.HasSuffix(c.GetName(), "deaf")
				if (c.GetState() == podconfigv1.ConsumerState_CONSUMER_STATE_PARKED) != deaf {
					return fmt.Errorf("%s is %v", c.GetName(), c.GetState())
				}
				if deaf {
					parked++
				}
			}
			if parked != consumers {
				return fmt.Errorf("%d are parked", parked)
			}
			return nil
		})
		if n, err := metricOn(e.metrics, `podconfigd_consumers_parked_total{reason="stalled"}`); err != nil || n < float64(consumers) {
			t.Errorf("%v consumers are counted as parked, %v; want %d at least", n, err, consumers)
		}
		current, err := listReferences(t.Context(), e.local)
		check(t, err)
		for at := uint64(0); at < current.GetRevision(); {
			msg, err := watches[0].Recv()
			check(t, err)
			at = max(at, msg.GetCursor().GetRevision())
		}
	}
}

// deafConn hears a connection's first words only.
type deafConn struct {
	net.Conn
	hears  int
	once   sync.Once
	closed chan struct{}
}

func (c *deafConn) Read(p []byte) (int, error) {
	if c.hears <= 0 {
		<-c.closed
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p[:min(len(p), c.hears)])
	c.hears -= n
	return n, err
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
