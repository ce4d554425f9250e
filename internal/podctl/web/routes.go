package web

import (
	"io"
	"log"
	"net/http"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/podstream/podstream/internal/podctl/web/assets"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/door"
	"github.com/podstream/podstream/internal/podctl/web/execsocket"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	"github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1/podwebv1connect"
	"github.com/podstream/podstream/internal/podctl/web/service"
)

// The paths beside those of the API and the page's files.
const (
	socketPath = "/exec"
	reportPath = "/csp-report"
)

// maxMessage is the maximum size of a call's message.
const maxMessage = 4 << 20

// discard is for net/http, which would print what other users of the machine send.
var discard = log.New(io.Discard, "", 0)

// routes returns all handlers behind the door.
func (s *server) routes(files *assets.Files, b *board.Board) http.Handler {
	var reports atomic.Int32
	confirm := service.NewConfirmations(s.cfg.Clock)
	svc := service.New(service.Config{
		Board: b, Upstream: s.upstream, Sessions: s.sessions, Confirm: confirm, Idle: s.idle, Clock: s.cfg.Clock, Version: s.cfg.Version,
		Podconfigd: s.cfg.Podconfigd, Podexecd: s.cfg.Podexecd, Recording: plaintext.Line(s.cfg.Recording, plaintext.Message),
		AllowExec: s.cfg.AllowExec, AllowApply: s.cfg.AllowApply, Actions: s.cfg.Actions, Changes: s.cfg.Changes, CSPReports: &reports,
		OnOpened: s.opened,
		OnTicketUsed: func() {
			s.cfg.Note("the link was used a second time: if it wasn't you, another program has read it; end podctl web then")
		},
	})
	mux := http.NewServeMux()
	// Without compression: the page is on the same machine, and what isn't decompressed can't be a bomb.
	path, api := podwebv1connect.NewWebServiceHandler(svc, connect.WithReadMaxBytes(maxMessage), connect.WithCompression("gzip", nil, nil))
	mux.Handle(path, api)
	mux.Handle(socketPath, execsocket.New(execsocket.Config{
		Sessions: s.sessions, Allowed: svc.Allowed, Confirm: confirm.Use, UID: b.UID, Touch: s.idle.Touch, Podexecd: s.cfg.Podexecd,
	}))
	noteReport := sync.OnceFunc(func() {
		s.cfg.Note("a browser reports that the page violated its content security policy: this is an error of podctl, or an attack")
	})
	mux.HandleFunc(reportPath, func(w http.ResponseWriter, _ *http.Request) {
		if n := reports.Load(); n < 1<<30 {
			reports.Add(1)
		}
		noteReport()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.Handle("/", files)
	return door.NewGuard(door.GuardConfig{
		Host: s.host, Sessions: s.sessions, OnRefused: s.noteRefusals(),
		Paths: door.Paths{
			Login: podwebv1connect.WebServiceOpenSessionProcedure, API: path, Socket: socketPath, Report: reportPath, IsAsset: files.Has,
		},
	}, mux)
}

// noteRefusals prints the first refusal of each check: an attack makes many.
func (s *server) noteRefusals() func(door.Refusal) {
	var mu sync.Mutex
	noted := map[string]bool{}
	return func(r door.Refusal) {
		mu.Lock()
		first := !noted[r.Check]
		noted[r.Check] = true
		mu.Unlock()
		if first {
			s.cfg.Note("refused a request (%s): %s; further ones aren't reported", r.Check, r.Reason)
		}
	}
}
