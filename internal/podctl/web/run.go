package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/podctl/web/assets"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/door"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
)

// The bounds of the HTTP server.
const (
	// headerTime is how long the header of a request may take, and idleTime how long a connection may wait for the next one.
	headerTime = 5 * time.Second
	idleTime   = 2 * time.Minute
	// maxHeader is the size of a header in bytes. net/http adds 4 KiB.
	maxHeader = 12 << 10
	// closeTime is how long open calls may take at the end.
	closeTime = 2 * time.Second
)

// Run serves the page until ctx ends, which is no error, or until it wasn't used for the idle time.
func Run(ctx context.Context, cfg Config) error {
	files, err := assets.Load()
	if err != nil {
		return err
	}
	listener, err := listen(ctx, cfg.Port)
	if err != nil {
		return err
	}
	defer listener.Close()
	handover, err := door.NewHandover(door.HandoverConfig{Parent: cfg.HandoverDir, Owner: cfg.HandoverOwner})
	if err != nil {
		return err
	}
	defer func() {
		if err := handover.Close(); err != nil {
			cfg.Note("%v", err)
		}
	}()
	return newServer(cfg, files, listener, handover).run(ctx)
}

// listen listens on the loopback address.
func listen(ctx context.Context, port int) (net.Listener, error) {
	host := "127.0.0.1"
	if failpoint.Active(failpoint.WebAnyAddress) {
		host = ""
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("podctl web: %w", err)
	}
	most := door.MaxConnections
	if failpoint.Active(failpoint.WebConnections) {
		most = 1 << 20
	}
	return door.NewListener(listener, most), nil
}

// server is one podctl web.
type server struct {
	cfg      Config
	host     string // "127.0.0.1:PORT"
	listener net.Listener
	handover *door.Handover
	sessions *door.Sessions
	idle     *service.Idle
	upstream *upstream.Upstream
	handler  http.Handler

	// ticket is that of the file. written gets a value when it is written.
	ticketMu sync.Mutex
	ticket   string
	written  chan struct{}
}

func newServer(cfg Config, files *assets.Files, listener net.Listener, handover *door.Handover) *server {
	port := listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // It listens on TCP.
	s := &server{
		cfg: cfg, host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), listener: listener, handover: handover,
		written: make(chan struct{}, 1), sessions: door.NewSessions(cfg.Clock), idle: service.NewIdle(cfg.Clock, cfg.IdleTimeout),
	}
	b := board.New(board.Config{Clock: cfg.Clock, Unified: cfg.Unified, ReadManifest: cfg.ReadManifest})
	s.upstream = upstream.New(upstream.Config{
		Board: b, Clock: cfg.Clock, Podconfigd: cfg.Podconfigd, Podexecd: cfg.Podexecd, NoPodexecd: cfg.NoPodexecd,
		Consumer: cfg.Consumer, Recording: cfg.Recording, Stats: cfg.Stats,
		FirstPause: cfg.FirstPause, Heartbeat: cfg.Heartbeat, Poll: cfg.Poll,
	})
	s.handler = s.routes(files, b)
	return s
}

// run serves until ctx ends or the idle time is over.
func (s *server) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.upstream.Run(ctx) })
	wg.Go(func() {
		if s.idle.Wait(ctx) {
			s.cfg.Note("podctl web wasn't used for %v: it ends", s.idle.Limit())
			cancel()
		}
	})
	wg.Go(func() { s.expire(ctx) })
	if err := s.invite(); err != nil {
		return err
	}
	if s.cfg.Stdin != nil {
		go s.readEnter(ctx) // A read can't be interrupted: the goroutine may outlive run.
	}
	return s.serve(ctx)
}

// serve serves HTTP until ctx ends.
func (s *server) serve(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: discard, ConnContext: door.ConnContext,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	if failpoint.Active(failpoint.WebHeaderTime) {
		srv.ReadHeaderTimeout = 0
	}
	if failpoint.Active(failpoint.WebHeaderSize) {
		srv.MaxHeaderBytes = 1 << 30
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if srv.Shutdown(closing) != nil {
			_ = srv.Close()
		}
	}()
	err := srv.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}

// invite writes a link with a new ticket, and prints or opens its file.
func (s *server) invite() error {
	s.ticketMu.Lock()
	s.ticket = s.sessions.NewTicket()
	address := "http://" + s.host + "/#token=" + s.ticket
	err := s.handover.Write(address)
	s.ticketMu.Unlock()
	if err != nil {
		return err
	}
	select {
	case s.written <- struct{}{}:
	default:
	}
	path := s.handover.Path()
	s.cfg.Note("podctl web is at http://%s; open this file in a browser, within a minute:", s.host)
	s.cfg.Note("  file://%s", path)
	if s.cfg.Stdin != nil {
		s.cfg.Note("Enter makes another link, Ctrl-C ends podctl web")
	}
	if !s.cfg.Open {
		return nil
	}
	target := path
	if failpoint.Active(failpoint.WebOpenAddress) {
		target = address
	}
	command := s.cfg.OpenCommand
	if len(command) == 0 {
		command = []string{"xdg-open"}
	}
	// A browser may stay in the foreground of the command, so nothing waits for it but the goroutine below.
	c := exec.Command(command[0], append(command[1:len(command):len(command)], target)...) //nolint:gosec // The command is the user's.
	if err := c.Start(); err != nil {
		s.cfg.Note("can't open a browser: %v", err)
		return nil
	}
	go func() { _ = c.Wait() }()
	return nil
}

// opened removes the file if its ticket was used.
func (s *server) opened(ticket string) {
	s.ticketMu.Lock()
	defer s.ticketMu.Unlock()
	if ticket == s.ticket {
		s.remove()
	}
}

// remove removes the file. The caller holds ticketMu.
func (s *server) remove() {
	s.ticket = ""
	if err := s.handover.Remove(); err != nil {
		s.cfg.Note("%v", err)
	}
}

// expire removes the file when its ticket has expired.
func (s *server) expire(ctx context.Context) {
	var expired <-chan time.Time
	for {
		select {
		case <-s.written:
			timer := s.cfg.Clock.NewTimer(door.TicketTime)
			defer timer.Stop() //nolint:gocritic // There is one for each link that the user asked for.
			expired = timer.C()
		case <-expired:
			s.ticketMu.Lock()
			s.remove()
			s.ticketMu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// readEnter makes another link for each line.
func (s *server) readEnter(ctx context.Context) {
	lines := bufio.NewReader(s.cfg.Stdin)
	for {
		_, isPrefix, err := lines.ReadLine()
		switch {
		case err != nil || ctx.Err() != nil:
			return
		case isPrefix:
			continue
		}
		s.idle.Touch()
		if err := s.invite(); err != nil {
			s.cfg.Note("%v", err)
		}
	}
}
