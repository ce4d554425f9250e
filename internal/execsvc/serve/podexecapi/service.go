package podexecapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The limits of a page.
const (
	defaultPageSize = 500
	maxPageBytes    = 1 << 20
)

// Config configures a Server.
type Config struct {
	// Node is the node's name: callers whose scope is other nodes see nothing.
	Node string
	// Version is the response of GetVersion.
	Version string
	// RuntimeVersion is for GetVersion too. Nil: unknown.
	RuntimeVersion RuntimeVersion
	// Board has the pods.
	Board *podview.Board
	// Events has the pods' events. Nil: none.
	Events *events.Recorder
	// Logs reads containers' logs, Exec runs commands in them, Attach connects to their main processes, and Ports to ports of pods. Nil:
	// UNIMPLEMENTED.
	Logs   LogReader
	Exec   Execer
	Attach Attacher
	Ports  PortForwarder
	// Restarts restarts containers. Nil: UNIMPLEMENTED.
	Restarts Restarter
	// Images has the runtime's images, and Stats the use of resources. Nil: UNIMPLEMENTED.
	Images Images
	Stats  Stats
	// Volumes are the directories of static pods' claims. Nil: UNIMPLEMENTED.
	Volumes Volumes
	// Kill kills a command that goes on in a container without its caller, and returns how many processes it has killed: strays.Killer.Kill.
	// Nil: it goes on.
	Kill func(containerID string, command []string) (killed int, err error)
	// Logger receives a line for each call that acts in a pod. Nil discards.
	Logger *slog.Logger
}

// Server implements podexec.v1.PodExecService.
type Server struct {
	podexecv1.UnimplementedPodExecServiceServer

	cfg   Config
	log   *slog.Logger
	slots slots
	// runtimeVersion is for GetVersion.
	runtimeVersion *recentVersion
	// listings has room for the calls that list the runtime's images.
	listings chan struct{}
	// volumeLists, volumeRemovals and volumeArchives have room for the calls on volumes.
	volumeLists, volumeRemovals, volumeArchives chan struct{}
	// linger is lingerTime, and killPatience that constant, except in tests.
	linger, killPatience time.Duration

	forwardsMu sync.Mutex
	// forwards counts the calls of PortForward by what they forward.
	forwards map[forwarding]int

	// closing ends when the server closes.
	closing context.Context //nolint:containedctx // Its streams' contexts end with it.
	close   context.CancelFunc
}

// New returns a Server. Close ends its streams.
func New(cfg Config) *Server {
	if cfg.Events == nil {
		cfg.Events = events.New(events.Config{})
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, slots: newSlots(), linger: lingerTime, killPatience: killPatience,
		forwards: map[forwarding]int{}, listings: make(chan struct{}, maxListings),
		volumeLists: make(chan struct{}, 1), volumeRemovals: make(chan struct{}, 1), volumeArchives: make(chan struct{}, maxArchives),
		runtimeVersion: newRecentVersion(cfg.RuntimeVersion, clock.RealClock{}),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends every stream with UNAVAILABLE, so that callers reconnect to the next process.
func (s *Server) Close() { s.close() }

// untilClosed returns the context of a stream: it ends with the call, and when the server closes.
func (s *Server) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closing, cancel)
	if s.closing.Err() != nil {
		cancel()
	}
	return ctx, func() { stop(); cancel() }
}

// ListPods is part of podexec.v1.PodExecService.
func (s *Server) ListPods(ctx context.Context, req *podexecv1.ListPodsRequest) (*podexecv1.ListPodsResponse, error) {
	v, err := s.view(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, invalidArgument("page_size: is %d", req.GetPageSize())
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, invalidArgument("page_token: isn't one of podexecd's")
	}
	limit := cmp.Or(int(req.GetPageSize()), defaultPageSize)
	pods := v.pods(s.cfg.Board)
	slices.SortFunc(pods, func(a, b podview.Pod) int { return cmp.Compare(key(a), key(b)) })
	resp := &podexecv1.ListPodsResponse{}
	size, last := 0, ""
	for _, p := range pods {
		if key(p) <= string(after) {
			continue
		}
		m, err := v.message(p, req.GetFormat())
		if err != nil {
			return nil, err
		}
		n := proto.Size(m)
		if len(resp.Pods) == limit || size > 0 && size+n > maxPageBytes {
			resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		resp.Pods, size, last = append(resp.Pods, m), size+n, key(p)
	}
	return resp, nil
}

// key is the sort key of pods: namespace, name and UID.
func key(p podview.Pod) string { return p.Namespace + "\x00" + p.Name + "\x00" + string(p.UID) }

// GetPod is part of podexec.v1.PodExecService.
func (s *Server) GetPod(ctx context.Context, req *podexecv1.GetPodRequest) (*podexecv1.GetPodResponse, error) {
	v, err := s.view(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	p, err := v.find(s.cfg.Board, req.GetRef())
	if err != nil {
		return nil, err
	}
	m, err := v.message(p, req.GetFormat())
	if err != nil {
		return nil, err
	}
	return &podexecv1.GetPodResponse{Pod: m}, nil
}
