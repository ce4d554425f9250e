package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// fakeStats returns a StatsSource that calls f.
func fakeStats(f func() error) upstream.StatsSource {
	return func(context.Context) ([]*podwebv1.StatsValue, error) {
		return []*podwebv1.StatsValue{{Cpu: 1}}, f()
	}
}

// scroll is the log of a container: each reader gets the lines since its time, and then waits.
type scroll struct {
	mu       sync.Mutex
	lines    []string
	end      error // how a reader ends after the lines; nil: it waits
	requests []*podexecv1.ReadLogsRequest
	ended    chan struct{}
}

func at(second int) time.Time { return podctltest.Noon.Add(time.Duration(second) * time.Second).UTC() }

// read implements ReadLogs. A line is "SECOND text".
func (s *scroll) read(req *podexecv1.ReadLogsRequest, stream grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
	s.mu.Lock()
	s.requests = append(s.requests, req)
	lines, end, ended := s.lines, s.end, s.ended
	s.mu.Unlock()
	var text strings.Builder
	for _, line := range lines {
		var second int
		_, rest, _ := strings.Cut(line, " ")
		if _, err := fmt.Sscan(line, &second); err != nil {
			return err
		}
		if since := req.GetSinceTime(); since == nil || !at(second).Before(since.AsTime()) {
			fmt.Fprintf(&text, "%s %s\n", at(second).Format(time.RFC3339Nano), rest)
		}
	}
	// In pieces of any length.
	for data := []byte(text.String()); len(data) > 0; {
		n := min(len(data), 7)
		if err := stream.Send(&podexecv1.ReadLogsResponse{Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	if end == nil {
		select {
		case <-stream.Context().Done():
		case <-ended:
		}
		return nil
	}
	return end
}

// set replaces the lines, and ends the readers.
func (s *scroll) set(end error, lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		close(s.ended)
	}
	s.lines, s.end, s.ended = lines, end, make(chan struct{})
}

func texts(log *upstream.Log) string {
	lines, _, _, _ := log.Lines.Read(0, 1<<20, 1<<30)
	var out []string
	for _, line := range lines {
		out = append(out, line.GetText())
	}
	return strings.Join(out, ",")
}

func wantTexts(t *testing.T, log *upstream.Log, want string) {
	t.Helper()
	changed := make(chan struct{}, 1)
	defer log.Lines.Follow(changed)()
	defer func() {
		if t.Failed() {
			t.Logf("the lines are %q; want %q", texts(log), want)
		}
	}()
	webtest.Await(t, "the lines "+want, changed, func() bool { return texts(log) == want })
}

// TestLogGoesOn: a log that breaks, or whose container restarts, goes on: no line is missing, and none comes twice, also among lines
// of the same time.
func TestLogGoesOn(t *testing.T) {
	e, s := webtest.NewPodexecd(t), &scroll{}
	e.Logs = s.read
	s.set(status.Error(codes.Unavailable, "it breaks"), "1 a", "2 b", "2 c")
	f := start(t, upstream.Config{Podconfigd: webtest.NewPodconfigd(t, 0, "file").Daemon(), Podexecd: e.Daemon()})
	log, release, err := f.upstream.OpenLog(upstream.LogName{UID: "u", Container: "web"}, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	wantTexts(t, log, "a,b,c")
	wantLink(t, log.Link, "BROKEN")
	s.set(nil, "1 a", "2 b", "2 c", "2 d", "3 e")
	wantTexts(t, log, "a,b,c,d,e")
	wantLink(t, log.Link, "LIVE")
	// The container ends, and the next one writes to a log of its own.
	s.set(nil, "4 f")
	if text := wantLink(t, log.Link, "ENDED"); text != "the container has ended" {
		t.Errorf("the link says %q", text)
	}
	wantTexts(t, log, "a,b,c,d,e,f")
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.requests[0]; first.GetTailLines() != 50 || !first.GetFollow() || !first.GetTimestamps() || first.GetSinceTime() != nil {
		t.Errorf("the first request is %v", first)
	}
}

// TestLogIsShared: tabs share the log of a container, which is read as long as one has it open.
func TestLogIsShared(t *testing.T) {
	e, s := webtest.NewPodexecd(t), &scroll{}
	e.Logs = s.read
	s.set(nil, "1 a")
	f := start(t, upstream.Config{Podconfigd: webtest.NewPodconfigd(t, 0, "file").Daemon(), Podexecd: e.Daemon()})
	name := upstream.LogName{UID: "u", Container: "web"}
	one, releaseOne, err := f.upstream.OpenLog(name, 10)
	if err != nil {
		t.Fatal(err)
	}
	two, releaseTwo, err := f.upstream.OpenLog(name, 10)
	if err != nil || one != two {
		t.Fatalf("the second tab has another log: %v", err)
	}
	wantTexts(t, one, "a")
	releaseOne()
	releaseOne()
	third, releaseThird, err := f.upstream.OpenLog(name, 10)
	if err != nil || third != one {
		t.Fatalf("the log ended with the first of two tabs: %v", err)
	}
	releaseTwo()
	releaseThird()
	next, release, err := f.upstream.OpenLog(name, 10)
	if err != nil || next == one {
		t.Fatalf("a log that no tab had open was kept: %v", err)
	}
	release()

	for i := range 64 {
		if _, _, err := f.upstream.OpenLog(upstream.LogName{UID: "u", Container: itoa(i)}, 10); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := f.upstream.OpenLog(upstream.LogName{UID: "u", Container: "more"}, 10); err == nil {
		t.Error("a 65th log is opened")
	}
}

// TestPreviousLog: the log of the container before is read once.
func TestPreviousLog(t *testing.T) {
	e := webtest.NewPodexecd(t)
	e.Logs = func(req *podexecv1.ReadLogsRequest, stream grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
		if req.GetFollow() || !req.GetPrevious() {
			return status.Errorf(codes.InvalidArgument, "want the previous one, without following: %v", req)
		}
		return stream.Send(&podexecv1.ReadLogsResponse{Data: []byte("no time here\nand no line end"), Stderr: true})
	}
	f := start(t, upstream.Config{Podconfigd: webtest.NewPodconfigd(t, 0, "file").Daemon(), Podexecd: e.Daemon()})
	log, release, err := f.upstream.OpenLog(upstream.LogName{UID: "u", Container: "web", Previous: true}, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	wantTexts(t, log, "no time here,and no line end")
	wantLink(t, log.Link, "ENDED")
}

// TestHostileLog: a log without line ends, with bytes that aren't text, or with escapes, is harmless and bounded.
func TestHostileLog(t *testing.T) {
	e := webtest.NewPodexecd(t)
	e.Logs = func(_ *podexecv1.ReadLogsRequest, stream grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
		for range 100 {
			if err := stream.Send(&podexecv1.ReadLogsResponse{Data: []byte(strings.Repeat("x", 10_000))}); err != nil {
				return err
			}
		}
		if err := stream.Send(&podexecv1.ReadLogsResponse{Data: []byte("\n\xff\tb" + podctltest.Hostile + "\n")}); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}
	f := start(t, upstream.Config{Podconfigd: webtest.NewPodconfigd(t, 0, "file").Daemon(), Podexecd: e.Daemon()})
	log, release, err := f.upstream.OpenLog(upstream.LogName{UID: "u", Container: "web"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	changed := make(chan struct{}, 1)
	defer log.Lines.Follow(changed)()
	var lines []*podwebv1.LogLine
	webtest.Await(t, "three lines", changed, func() bool {
		lines, _, _, _ = log.Lines.Read(0, 10, 1<<30)
		return len(lines) == 3
	})
	if long := lines[0]; !long.GetCut() || len(long.GetText()) > 17<<10 {
		t.Errorf("the first line has %d bytes, cut: %v", len(long.GetText()), long.GetCut())
	}
	if text := lines[1].GetText(); !strings.HasPrefix(text, `\xff`+"\tb") {
		t.Errorf("the second line is %q; want its tab, and its byte escaped", text)
	}
	for _, line := range lines {
		podctltest.CheckHarmless(t, "a line", strings.ReplaceAll(line.GetText(), "\t", ""))
	}
}
