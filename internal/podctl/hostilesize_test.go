package podctl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// endlessPodexecd sends a million pods, or as many as podctl takes, in pages of 1000.
type endlessPodexecd struct {
	podexecv1.UnimplementedPodExecServiceServer
	// ballast is sent with each pod, and empty pages have no pods.
	ballast []byte
	empty   bool
	sent    atomic.Int64
}

const aMillion = 1_000_000

func (e *endlessPodexecd) pod() *podexecv1.ObservedPod {
	name := fmt.Sprintf("pod-%d\x1b[2J", e.sent.Add(1))
	return &podexecv1.ObservedPod{
		Ref: &podconfigv1.PodRef{Namespace: "default", Name: name, Uid: name}, Status: &podexecv1.ObservedPod_Protobuf{Protobuf: e.ballast},
	}
}

func (e *endlessPodexecd) ListPods(context.Context, *podexecv1.ListPodsRequest) (*podexecv1.ListPodsResponse, error) {
	const pageSize = 1000
	resp := &podexecv1.ListPodsResponse{}
	size := pageSize
	if len(e.ballast) > 0 {
		size = 1
	}
	if e.empty {
		e.sent.Add(1)
		size = 0
	}
	for range size {
		resp.Pods = append(resp.Pods, e.pod())
	}
	if sent := e.sent.Load(); sent < aMillion {
		resp.NextPageToken = fmt.Sprint(sent)
	}
	return resp, nil
}

func (e *endlessPodexecd) WatchPodStatus(_ *podexecv1.WatchPodStatusRequest, stream grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse]) error {
	for e.sent.Load() < aMillion {
		if err := stream.Send(&podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Pod{Pod: e.pod()}}); err != nil {
			return err
		}
	}
	return stream.Send(&podexecv1.WatchPodStatusResponse{ResumeToken: "x", Event: &podexecv1.WatchPodStatusResponse_Synced{Synced: &podexecv1.StatusSynced{}}})
}

// TestEndlessLists: a daemon that sends a million pods, or gigabytes, or pages without end, gets an error after a bounded number.
func TestEndlessLists(t *testing.T) {
	// A stream sends ahead of its reader as much as gRPC's window, of at most 16 MiB, has room for.
	const items, mebibytes, ahead = 3000, 16, 100_000
	ballast := bytes.Repeat([]byte("x"), 3<<20)
	for name, tc := range map[string]struct {
		daemon *endlessPodexecd
		args   string
		want   string
		most   int64
	}{
		"a list":        {&endlessPodexecd{}, "ps --request-timeout=0", "more than 3000 items", items + 1000},
		"large pods":    {&endlessPodexecd{ballast: ballast}, "ps --request-timeout=0", "or 16 MiB", 12},
		"empty pages":   {&endlessPodexecd{empty: true}, "ps --request-timeout=0", "more than 1000 pages", maxEmptyPages + 10},
		"a watch":       {&endlessPodexecd{}, "pods -w", "more than 3000 items", items + ahead},
		"a large watch": {&endlessPodexecd{ballast: ballast}, "pods -w", "or 16 MiB", 40},
		"wait's watch":  {&endlessPodexecd{}, "wait web --for=condition=Ready --timeout=-1s", "more than 3000 items", items + ahead},
		"get's watch":   {&endlessPodexecd{ballast: ballast}, "get pods -w", "or 16 MiB", 40},
		"a selector":    {&endlessPodexecd{ballast: ballast}, "logs -l app=web", "or 16 MiB", 12},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.maxItems, n.maxItemBytes = items, mebibytes<<20
			n.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, tc.daemon) })
			n.podconfigd(&fakePodconfigd{})
			code := n.run(t.Context(), strings.Fields(tc.args)...)
			if code != exitFailed || !strings.Contains(n.stderr.String(), tc.want) {
				t.Errorf("exit code %d; want %q in\n%.500s", code, tc.want, n.stderr)
			}
			if sent := tc.daemon.sent.Load(); sent > tc.most {
				t.Errorf("podctl took %d items; want at most %d", sent, tc.most)
			}
			if strings.ContainsRune(n.stdout.String()+n.stderr.String(), '\x1b') {
				t.Error("an escape character reaches the terminal")
			}
		})
	}
}

// TestListBounds: a list may have 200,000 items, and 256 MiB.
func TestListBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		item *podexecv1.ObservedPod
		most int
	}{
		"items": {&podexecv1.ObservedPod{}, 200_000},
		"bytes": {&podexecv1.ObservedPod{Status: &podexecv1.ObservedPod_Protobuf{Protobuf: make([]byte, 1<<20)}}, 255},
	} {
		size, added := newTool(Config{}).newListSize(), 0
		for size.add(tc.item) == nil {
			added++
		}
		if added != tc.most {
			t.Errorf("%s: a list may have %d; want %d", name, added, tc.most)
		}
	}
}

// heapWriter is a writer that counts, and reports a growing heap.
type heapWriter struct {
	report  func(format string, args ...any)
	limit   uint64
	written int
	checked int
	escaped bool
}

func (b *heapWriter) Write(p []byte) (int, error) {
	b.written += len(p)
	b.escaped = b.escaped || bytes.ContainsRune(p, '\x1b')
	const often = 2 << 20
	if b.written-b.checked > often {
		b.checked = b.written
		b.check()
	}
	return len(p), nil
}

func (b *heapWriter) check() {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	if now.HeapAlloc > b.limit {
		b.report("after %d bytes the heap has %d bytes; want at most %d", b.written, now.HeapAlloc, b.limit)
	}
}

func newHeapWriter(t *testing.T) *heapWriter {
	t.Helper()
	const growth = 12 << 20
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return &heapWriter{report: t.Errorf, limit: now.HeapAlloc + growth}
}

// TestEndlessLines: a line of 24 MiB isn't kept, whatever prints it.
func TestEndlessLines(t *testing.T) {
	const size, part = 24 << 20, 64 << 10
	line := []byte(strings.Repeat("\x1b[2Jabcd", part/8))
	serve := func(t *testing.T) *node {
		n := newNode(t)
		n.busy(&busyPodexecd{
			pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
			logs: func(_ *podexecv1.ReadLogsRequest, stream logStream) error {
				for range size / part {
					if err := stream.Send(&podexecv1.ReadLogsResponse{Data: line}); err != nil {
						return err
					}
				}
				return nil
			},
		})
		return n
	}
	for _, args := range []string{"logs web", "logs web --prefix", "logs web --all-containers"} {
		t.Run(args, func(t *testing.T) {
			n := serve(t)
			out := newHeapWriter(t)
			code := Run(t.Context(), Config{
				Args: append([]string{"--podexec-endpoint=unix://" + n.socket("podexecd")}, strings.Fields(args)...), Stdout: out, Stderr: n.stderr,
				Getenv: noVariables, Hostname: "node1",
			})
			if code != exitOK || out.written < size {
				t.Errorf("exit code %d, %d bytes of %d, stderr:\n%s", code, out.written, size, n.stderr)
			}
		})
	}
	t.Run("at a terminal", func(t *testing.T) {
		out := newHeapWriter(t)
		text := &render.Text{Out: out}
		for range size / part {
			if _, err := text.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := text.Flush(); err != nil || out.written < size || out.escaped {
			t.Errorf("%v; %d bytes of %d; an escape character: %v", err, out.written, size, out.escaped)
		}
	})
	t.Run("the check", func(t *testing.T) {
		// A writer that keeps what it gets is found.
		found := 0
		out := newHeapWriter(t)
		out.report = func(string, ...any) { found++ }
		var kept bytes.Buffer
		both := io.MultiWriter(&kept, out)
		for range size / part {
			_, _ = both.Write(line)
		}
		if found == 0 || kept.Len() != size {
			t.Error("a growing heap isn't found")
		}
	})
}
