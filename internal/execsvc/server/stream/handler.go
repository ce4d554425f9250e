package stream

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/runtime"
)

// Pods are those that may be looked into: a board.Board.
type Pods interface {
	All() []board.Pod
	Get(uid types.UID) (board.Pod, bool)
	Since(after board.Position) (changes []board.Change, now board.Position, more <-chan struct{}, resumed bool)
}

// Runtime reads logs and has streams: a runtime.Runtime.
type Runtime interface {
	// ReadLog returns runtime.ErrNoLog if the log isn't there, and runtime.ErrTooManyFollows as that says.
	ReadLog(ctx context.Context, in runtime.LogInput) error
	Exec(ctx context.Context, in runtime.ExecInput) (exitCode int, err error)
	Attach(ctx context.Context, in runtime.ExecInput) error
	ExecURL(ctx context.Context, in runtime.StreamInput) (*url.URL, error)
	AttachURL(ctx context.Context, in runtime.StreamInput) (*url.URL, error)
	// PortForwardURL returns runtime.ErrNoSandbox if nothing of the pod runs.
	PortForwardURL(ctx context.Context, uid types.UID, ports []int32) (*url.URL, error)
	Checkpoint(ctx context.Context, containerID, path string, timeout time.Duration) error
}

// Config says which pods a Handler looks into, and how far it goes.
type Config struct {
	Pods    Pods
	Runtime Runtime
	// MirrorUID is the UID of the mirror pod of the static pod of that name, by which callers may name it too. Empty: it has none. Nil:
	// no pod has.
	MirrorUID func(namespace, name string) types.UID
	// CheckpointsDir is where checkpoints are kept: <root-dir>/checkpoints. It is made when it is needed. Empty: there are none to be had.
	CheckpointsDir string
	// IdleTimeout ends a stream over which nothing has gone for so long. Zero: it may be silent as long as it likes.
	IdleTimeout time.Duration
	// MaxStreams is how many requests are served at once, and MaxStreamsPerPod how many of them for one pod. Zero: 1000, and half of
	// MaxStreams, so that one pod leaves room for the others.
	MaxStreams, MaxStreamsPerPod int
	// Registerer gets the metrics. Nil: nobody does.
	Registerer prometheus.Registerer
	// Logger gets what goes wrong on this node. What the caller did wrong is told to the caller only. Nil discards.
	Logger *slog.Logger
}

// Handler serves the streaming half of the node's API. Whoever comes here may do everything: it stands behind authentication and
// authorization.
type Handler struct {
	cfg     Config
	log     *slog.Logger
	mux     *http.ServeMux
	slots   *slots
	metrics *metrics
	// runtime connects to the runtime's streaming server.
	runtime *http.Transport
	// closed ends with Close, and every request with it.
	closed context.Context //nolint:containedctx // It stands for the Handler's life, which no call has.
	end    context.CancelFunc
}

// never is longer than anything lasts.
const never = 100 * 365 * 24 * time.Hour

// New returns a Handler. Close it when it serves no more.
func New(cfg Config) *Handler {
	if cfg.MirrorUID == nil {
		cfg.MirrorUID = func(string, string) types.UID { return "" }
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = never
	}
	if cfg.MaxStreams == 0 {
		cfg.MaxStreams = 1000
	}
	if cfg.MaxStreamsPerPod == 0 {
		cfg.MaxStreamsPerPod = max(cfg.MaxStreams/2, 1)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{
		cfg: cfg, log: cfg.Logger, mux: http.NewServeMux(), metrics: newMetrics(cfg.Registerer), runtime: newTransport(),
		slots: newSlots(cfg.MaxStreams, cfg.MaxStreamsPerPod),
	}
	h.closed, h.end = context.WithCancel(context.Background())
	h.handle("containerLogs", h.logs, "/{namespace}/{pod}/{container}", http.MethodGet)
	for _, path := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
		h.handle("exec", h.exec, path, http.MethodGet, http.MethodPost)
		h.handle("attach", h.attach, path, http.MethodGet, http.MethodPost)
		h.handle("run", h.run, path, http.MethodPost)
	}
	for _, path := range []string{"/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"} {
		h.handle("portForward", h.portForward, path, http.MethodGet, http.MethodPost)
	}
	h.handle("checkpoint", h.checkpoint, "/{namespace}/{pod}/{container}", http.MethodPost)
	return h
}

// ServeHTTP implements http.Handler for the paths /containerLogs/, /exec/, /attach/, /run/, /portForward/ and /checkpoint/.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close ends all requests, also those whose connections the HTTP server has given away, and waits for them. Later ones are refused.
func (h *Handler) Close() {
	h.end()
	h.slots.close()
}

// endpoint serves a request for a pod. The error is the answer, unless something of one has been sent.
type endpoint func(w http.ResponseWriter, r *http.Request, pod board.Pod) error

// handle lets an endpoint serve the requests of a room, /ROOM/..., once their pod is found and there is room for them.
func (h *Handler) handle(room string, serve endpoint, path string, methods ...string) {
	served := func(w http.ResponseWriter, r *http.Request) error {
		pod, err := h.find(r)
		if err != nil {
			return err
		}
		leave, err := h.slots.take(pod.UID)
		if err != nil {
			return err
		}
		defer leave()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(h.closed, cancel)()
		return serve(w, r.WithContext(ctx), pod)
	}
	for _, method := range methods {
		h.mux.HandleFunc(method+" /"+room+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method { // A HEAD counts as a GET, and nothing here has a head only.
				w.Header().Set("Allow", method)
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			if err := served(w, r); err != nil {
				h.answer(w, r, err)
			}
		})
	}
}
