package service

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/door"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Actions are what changes something, beside exec. A nil one isn't available.
type Actions struct {
	// Restart restarts containers of a pod; all of them if container is empty. It returns what was done, a line each.
	Restart func(ctx context.Context, pod *podconfigv1.PodRef, container string) ([]string, error)
	Applier Applier
}

// Config configures a Service. All fields are needed, except those that say otherwise.
type Config struct {
	Board    *board.Board
	Upstream *upstream.Upstream
	Sessions *door.Sessions
	Confirm  *Confirmations
	Idle     *Idle
	Clock    clock.WithTicker
	// Version is podctl's.
	Version string
	// Podconfigd and Podexecd are the daemons; nil if they aren't asked.
	Podconfigd, Podexecd *upstream.Daemon
	// Recording is the name of the recording. Empty: none.
	Recording string
	// AllowExec and AllowApply allow what changes something.
	AllowExec, AllowApply bool
	Actions               Actions
	// Changes returns the changes of the pods that a diff leads to, without bounds of their texts.
	Changes func(context.Context, *podconfigv1.DiffManifestsResponse) ([]*podwebv1.PodDiff, error)
	// CSPReports counts the reports of browsers.
	CSPReports *atomic.Int32
	// OnOpened is called with the ticket of a new session. Nil means no call.
	OnOpened func(ticket string)
	// OnTicketUsed is called when a ticket is presented again: another program may have read it. Nil means no call.
	OnTicketUsed func()
}

// MaxStreams is how many tabs have a stream at once. A browser has six connections for all of its tabs, and some have to be left
// for calls.
const MaxStreams = 4

// Service implements podwebv1connect.WebServiceHandler.
type Service struct {
	cfg Config

	mu   sync.Mutex
	tabs map[string]*tab
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.OnTicketUsed == nil {
		cfg.OnTicketUsed = func() {}
	}
	if cfg.OnOpened == nil {
		cfg.OnOpened = func(string) {}
	}
	return &Service{cfg: cfg, tabs: map[string]*tab{}}
}

// OpenSession is part of podweb.v1.
func (s *Service) OpenSession(_ context.Context, req *podwebv1.OpenSessionRequest) (*podwebv1.OpenSessionResponse, error) {
	session, err := s.cfg.Sessions.Open(req.GetTicket())
	if err != nil {
		if err == door.ErrTicketUsed { //nolint:errorlint // Open returns it as it is.
			s.cfg.OnTicketUsed()
		}
		return nil, ticketError(err)
	}
	s.cfg.OnOpened(req.GetTicket())
	s.cfg.Idle.Touch()
	return &podwebv1.OpenSessionResponse{Session: session}, nil
}

// NewTicket is part of podweb.v1.
func (s *Service) NewTicket(context.Context, *podwebv1.NewTicketRequest) (*podwebv1.NewTicketResponse, error) {
	s.cfg.Idle.Touch()
	return &podwebv1.NewTicketResponse{Ticket: s.cfg.Sessions.NewTicket()}, nil
}

// GetSession is part of podweb.v1.
func (s *Service) GetSession(context.Context, *podwebv1.GetSessionRequest) (*podwebv1.GetSessionResponse, error) {
	s.cfg.Idle.Touch()
	return &podwebv1.GetSessionResponse{Session: s.session()}, nil
}

// KeepAlive is part of podweb.v1.
func (s *Service) KeepAlive(context.Context, *podwebv1.KeepAliveRequest) (*podwebv1.KeepAliveResponse, error) {
	s.cfg.Idle.Touch()
	return &podwebv1.KeepAliveResponse{EndsAt: stamp(s.cfg.Idle.Ends())}, nil
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// session describes this podctl web.
func (s *Service) session() *podwebv1.Session {
	b := s.cfg.Board
	begin, _ := b.Timeline.Begin.Get()
	out := &podwebv1.Session{
		PodctlVersion: s.cfg.Version, ExecRefusal: s.execRefusal(), ApplyRefusal: s.applyRefusal(), Gateway: b.Gateway(),
		TimelineBegin: begin, Recording: s.cfg.Recording, EndsAt: stamp(s.cfg.Idle.Ends()), CspReports: s.cfg.CSPReports.Load(),
		ManifestRefusal: s.manifestRefusal(), FileSources: s.fileSources(), Now: timestamppb.New(s.cfg.Clock.Now()),
	}
	out.ExecAllowed, out.ApplyAllowed = out.ExecRefusal == "", out.ApplyRefusal == ""
	if limit := s.cfg.Idle.Limit(); limit > 0 {
		out.IdleTimeout = durationpb.New(limit)
	}
	daemon := func(name, endpoint string, link *board.Link) {
		connection, _ := link.Get()
		version := s.cfg.Upstream.Version(name)
		out.Daemons = append(out.Daemons, &podwebv1.Daemon{
			Name: name, Endpoint: endpoint, Version: version.Version, NodeName: version.Node, Connection: connection,
		})
	}
	if s.cfg.Recording != "" {
		daemon("recording", s.cfg.Recording, b.Desired)
		return out
	}
	if d := s.cfg.Podconfigd; d != nil {
		daemon(d.Name, d.Endpoint, b.Desired)
	}
	if d := s.cfg.Podexecd; d != nil {
		daemon(d.Name, d.Endpoint, b.Observed)
	}
	return out
}

// acquire makes a tab.
func (s *Service) acquire() (*tab, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tabs) >= MaxStreams {
		return nil, refuse(connect.CodeResourceExhausted, "4 tabs are open: close one of them")
	}
	t := newTab()
	s.tabs[t.id] = t
	return t, nil
}

func (s *Service) release(t *tab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tabs, t.id)
}

// tab returns a tab whose stream is open.
func (s *Service) tab(id string) (*tab, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tabs[id]; t != nil {
		return t, nil
	}
	return nil, refuse(connect.CodeNotFound, "the tab's stream is over: open it again")
}
