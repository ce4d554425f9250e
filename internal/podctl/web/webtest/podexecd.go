package webtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Podexecd is a podexecd that has what the test gives it.
type Podexecd struct {
	podexecv1.UnimplementedPodExecServiceServer
	*server

	// Logs and ExecFunc answer. Nil: UNIMPLEMENTED.
	Logs     func(*podexecv1.ReadLogsRequest, grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error
	ExecFunc func(*podexecv1.ExecStart, grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error

	// Stats answers GetStats. Nil: UNIMPLEMENTED.
	Stats func() *podexecv1.GetStatsResponse

	mu      sync.Mutex
	changed chan struct{}
	// life counts its starts: tokens are of one.
	life    int
	changes []*podexecv1.WatchPodStatusResponse
	pods    map[string]*podexecv1.ObservedPod
	events  []*podexecv1.PodEvent
	// tokens are those of the watchers, in order.
	tokens  []string
	closing chan struct{}
}

// NewPodexecd returns a podexecd that is up, without pods.
func NewPodexecd(t testing.TB) *Podexecd {
	t.Helper()
	p := &Podexecd{changed: make(chan struct{}), pods: map[string]*podexecv1.ObservedPod{}}
	p.server = newServer(t, "podexecd", func(r grpc.ServiceRegistrar) { podexecv1.RegisterPodExecServiceServer(r, p) })
	p.Up()
	return p
}

// Up serves.
func (p *Podexecd) Up() {
	closing := make(chan struct{})
	p.mu.Lock()
	p.closing = closing
	p.mu.Unlock()
	p.server.closing = sync.OnceFunc(func() { close(closing) })
	p.up()
}

// Down ends all streams.
func (p *Podexecd) Down() { p.stop() }

// Restart makes it forget its tokens, while it is down.
func (p *Podexecd) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	p.changes = nil
}

// Daemon returns a connection to it.
func (p *Podexecd) Daemon() *upstream.Daemon { return p.daemon() }

// Tokens returns the resume tokens of the watchers so far.
func (p *Podexecd) Tokens() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.tokens)
}

// Put adds or changes a pod.
func (p *Podexecd) Put(pod *podexecv1.ObservedPod) {
	p.change(func() {
		p.pods[pod.GetRef().GetUid()] = pod
		p.changes = append(p.changes, &podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Pod{Pod: pod}})
	})
}

// Remove removes a pod.
func (p *Podexecd) Remove(uid string) {
	p.change(func() {
		ref := p.pods[uid].GetRef()
		delete(p.pods, uid)
		p.changes = append(p.changes, &podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Removed{Removed: ref}})
	})
}

// Event adds an event.
func (p *Podexecd) Event(e *podexecv1.PodEvent) { p.change(func() { p.events = append(p.events, e) }) }

func (p *Podexecd) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Podexecd) token(n int) string { return strconv.Itoa(p.life) + "." + strconv.Itoa(n) }

// GetVersion implements podexecv1.PodExecServiceServer.
func (p *Podexecd) GetVersion(context.Context, *podexecv1.GetVersionRequest) (*podexecv1.GetVersionResponse, error) {
	return &podexecv1.GetVersionResponse{Version: "v0.0.1", NodeName: "node"}, nil
}

// GetStats implements podexecv1.PodExecServiceServer.
func (p *Podexecd) GetStats(context.Context, *podexecv1.GetStatsRequest) (*podexecv1.GetStatsResponse, error) {
	if p.Stats == nil {
		return nil, status.Error(codes.Unimplemented, "no stats")
	}
	return p.Stats(), nil
}

// GetPod implements podexecv1.PodExecServiceServer.
func (p *Podexecd) GetPod(_ context.Context, req *podexecv1.GetPodRequest) (*podexecv1.GetPodResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod := p.pods[req.GetRef().GetUid()]; pod != nil {
		return &podexecv1.GetPodResponse{Pod: pod}, nil
	}
	return nil, status.Error(codes.NotFound, "there is no such pod")
}

// WatchPodStatus implements podexecv1.PodExecServiceServer.
func (p *Podexecd) WatchPodStatus(req *podexecv1.WatchPodStatusRequest, stream grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse]) error {
	p.mu.Lock()
	p.tokens = append(p.tokens, req.GetResumeToken())
	at, resumed := 0, false
	if life, n, ok := strings.Cut(req.GetResumeToken(), "."); ok && life == strconv.Itoa(p.life) {
		at, _ = strconv.Atoi(n)
		resumed = at <= len(p.changes)
	}
	var first []*podexecv1.WatchPodStatusResponse
	if !resumed {
		at = len(p.changes)
		for _, pod := range p.pods {
			first = append(first, &podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Pod{Pod: pod}})
		}
	}
	first = append(first, &podexecv1.WatchPodStatusResponse{
		Event: &podexecv1.WatchPodStatusResponse_Synced{Synced: &podexecv1.StatusSynced{Resumed: resumed}}, ResumeToken: p.token(at),
	})
	p.mu.Unlock()
	for _, m := range first {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return p.follow(stream.Context(), func() int { return len(p.changes) }, at, func(i int) error {
		m := &podexecv1.WatchPodStatusResponse{Event: p.changes[i].GetEvent(), ResumeToken: p.token(i + 1)}
		p.mu.Unlock()
		defer p.mu.Lock()
		return stream.Send(m)
	})
}

// follow calls send for each item from a position on, under the lock, until the server closes.
func (p *Podexecd) follow(ctx context.Context, items func() int, from int, send func(i int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := from; ; {
		for ; i < items(); i++ {
			if err := send(i); err != nil {
				return err
			}
		}
		changed, closing := p.changed, p.closing
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-closing:
		}
		p.mu.Lock()
		select {
		case <-closing:
			return status.Error(codes.Unavailable, "podexecd is going down")
		case <-ctx.Done():
			return nil
		default:
		}
	}
}

// WatchEvents implements podexecv1.PodExecServiceServer.
func (p *Podexecd) WatchEvents(_ *podexecv1.WatchEventsRequest, stream grpc.ServerStreamingServer[podexecv1.WatchEventsResponse]) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	return p.follow(stream.Context(), func() int { return len(p.events) }, 0, func(i int) error {
		m := &podexecv1.WatchEventsResponse{Event: p.events[i]}
		p.mu.Unlock()
		defer p.mu.Lock()
		return stream.Send(m)
	})
}

// ReadLogs implements podexecv1.PodExecServiceServer.
func (p *Podexecd) ReadLogs(req *podexecv1.ReadLogsRequest, stream grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
	if p.Logs == nil {
		return status.Error(codes.Unimplemented, "no logs")
	}
	return p.Logs(req, stream)
}

// Exec implements podexecv1.PodExecServiceServer.
func (p *Podexecd) Exec(stream grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if p.ExecFunc == nil {
		return status.Error(codes.Unimplemented, "no commands")
	}
	return p.ExecFunc(first.GetStart(), stream)
}
