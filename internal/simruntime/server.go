package simruntime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/utils/clock"
)

// maxMessage is containerd's limit on one gRPC message, in bytes.
const maxMessage = 16 << 20

// Config configures a Server.
type Config struct {
	// StateDir is the directory that ImageFsInfo returns as the image file system. Nothing is written there. Empty
	// means the directory for temporary files.
	StateDir string
	// ContainersDir is the directory that ImageFsInfo returns as the file system of writable layers, as CRI-O does. Empty
	// means that it returns none, as containerd.
	ContainersDir string
	// Images are the registry's images: image names, and prefixes that end in "/". Nil means "sim/" and "localhost/".
	// In addition, "missing/…" never exists, and "slow/NAME:DURATION" takes DURATION to pull (5s if the tag isn't a
	// duration).
	Images []string
	// Imported are the images that are present without a pull, in the form of Images. Nil means "localhost/".
	Imported []string
	// NoEvents makes GetContainerEvents fail with Unimplemented, as containerd 1.6 does.
	NoEvents bool
	// ListStreams serves the Stream… counterparts of the List… calls. Without it they are Unimplemented, as in
	// containerd up to 2.
	ListStreams bool
	// Fault is called before each RPC with its name ("StartContainer") and request, concurrently. If it returns an
	// error, the RPC returns that error without an effect. A fault that blocks until ctx ends simulates a runtime that
	// hangs. The request is nil for streaming calls. Nil means no faults.
	Fault func(ctx context.Context, method string, req any) error
	// EventFault is called with each event, and returns the events to send instead: none, the same one twice, or an
	// earlier one that it has delayed. Calls are serialized, and must not call the Server. Nil means no faults.
	EventFault func(*runtimeapi.ContainerEventResponse) []*runtimeapi.ContainerEventResponse
	// Streams serves Exec, Attach and PortForward, on a port of the loopback interface. Without it they are
	// Unimplemented.
	Streams bool
	// Dial connects to a port of a pod, by the pod's name. Nil means that no port is open.
	Dial func(ctx context.Context, pod string, port int32) (net.Conn, error)
	// Programs are further executables of each container, by name, for Exec.
	Programs map[string]Program
	// Usage returns what a running container seems to use, by its name. Nil means nothing, as no process runs.
	Usage func(container string, now time.Time) Usage
	// Clock is the clock of the simulation. Nil means the real clock.
	Clock clock.Clock
	// Logger receives a line for each RPC, at debug level. Nil discards.
	Logger *slog.Logger
}

// Server is one simulated runtime. Its state survives the end of Serve, as containers survive a restart of containerd.
type Server struct {
	cfg      Config
	clock    clock.Clock
	log      *slog.Logger
	registry registry

	// lifetimes are the goroutines that end containers after their lifetime.
	lifetimes sync.WaitGroup

	// events are the unread events.
	events chan *runtimeapi.ContainerEventResponse

	mu                           sync.Mutex
	calls                        map[string]int
	sandboxes                    map[string]*sandbox
	containers                   map[string]*container
	sandboxNames, containerNames names
	addresses                    addresses
	images                       imageStore
	eventsBroken                 chan struct{}    // closed, and replaced, by BreakEvents
	streams                      streaming.Server // nil: none are served
	serving                      context.Context  //nolint:containedctx // The last one of serveStreams: streaming.Runtime has none.
}

// New returns a Server without sandboxes that isn't serving. The caller must call Close after the last Serve.
func New(cfg Config) *Server {
	if cfg.Images == nil {
		cfg.Images = []string{"sim/", "localhost/"}
	}
	if cfg.Imported == nil {
		cfg.Imported = []string{"localhost/"}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, clock: cfg.Clock, log: cfg.Logger,
		registry:     newRegistry(cfg.Images),
		calls:        make(map[string]int),
		events:       make(chan *runtimeapi.ContainerEventResponse, eventBuffer),
		eventsBroken: make(chan struct{}),
	}
	s.reset()
	return s
}

// reset sets the state of a new runtime.
func (s *Server) reset() {
	s.sandboxes = make(map[string]*sandbox)
	s.containers = make(map[string]*container)
	s.sandboxNames, s.containerNames = make(names), make(names)
	s.addresses = newAddresses()
	s.images = newImageStore(s.cfg.Imported)
}

// Serve answers CRI calls on l until ctx ends, and closes l. Calls in progress are then cut off, as when a runtime is
// killed. The containers survive, and Serve may be called again with another listener. It returns nil if it ended
// because ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.UnaryInterceptor(s.interceptUnary), grpc.StreamInterceptor(s.interceptStream),
		// Handlers must not use the state after Serve has returned.
		grpc.WaitForHandlers(true),
	)
	runtimeapi.RegisterRuntimeServiceServer(server, &runtimeService{Server: s})
	runtimeapi.RegisterImageServiceServer(server, &imageService{Server: s})
	group, ctx := errgroup.WithContext(ctx)
	if s.cfg.Streams {
		streams, err := listenForStreams()
		if err != nil {
			return errors.Join(err, l.Close())
		}
		server, err := s.newStreams(streams.Addr().String())
		if err != nil {
			return errors.Join(err, streams.Close(), l.Close())
		}
		group.Go(func() error { return s.serveStreams(ctx, server, streams) })
	}
	group.Go(func() error {
		// ErrServerStopped: ctx ended before Serve was called.
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve CRI on %s: %w", l.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		server.Stop()
		return nil
	})
	return group.Wait()
}

// Close removes everything and waits for the goroutines of the containers. Serve must have returned.
func (s *Server) Close() {
	s.DropAll()
	s.lifetimes.Wait()
}

// Calls returns the number of calls by name ("StartContainer"), failed ones included.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// admit counts a call and injects faults.
func (s *Server) admit(ctx context.Context, fullMethod string, req any) error {
	method := path.Base(fullMethod)
	s.mu.Lock()
	s.calls[method]++
	s.mu.Unlock()
	if s.cfg.Fault == nil {
		return nil
	}
	return s.cfg.Fault(ctx, method, req)
}

func (s *Server) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx, info.FullMethod, req); err != nil {
		s.log.DebugContext(ctx, "fault", "method", path.Base(info.FullMethod), "error", err)
		return nil, err
	}
	resp, err := handler(ctx, req)
	// The request isn't logged, because a container's environment may contain secrets.
	s.log.DebugContext(ctx, "call", "method", path.Base(info.FullMethod), "error", err)
	return resp, err
}

func (s *Server) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := s.admit(stream.Context(), info.FullMethod, nil); err != nil {
		return err
	}
	return handler(srv, stream)
}

// runtimeService and imageService are the two services of a Server. Methods that they don't define are Unimplemented.
type runtimeService struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	*Server
}

type imageService struct {
	runtimeapi.UnimplementedImageServiceServer
	*Server
}
