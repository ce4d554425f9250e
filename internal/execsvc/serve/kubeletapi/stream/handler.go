package stream

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// Pods has the pods: a *podview.Board.
type Pods interface {
	All() []podview.Pod
	Get(uid types.UID) (podview.Pod, bool)
	Since(after podview.Position) (changes []podview.Change, now podview.Position, more <-chan struct{}, resumed bool)
}

// Runtime reads logs and has streams: a *runtime.Runtime.
type Runtime interface {
	// ReadLog returns runtime.ErrNoLog if the log doesn't exist, and runtime.ErrTooManyFollows as documented there.
	ReadLog(ctx context.Context, in runtime.LogInput) error
	Exec(ctx context.Context, in runtime.ExecInput) (exitCode int, err error)
	Attach(ctx context.Context, in runtime.ExecInput) error
	ExecURL(ctx context.Context, in runtime.StreamInput) (*url.URL, error)
	AttachURL(ctx context.Context, in runtime.StreamInput) (*url.URL, error)
	// PortForwardURL returns runtime.ErrNoSandbox if no sandbox of the pod runs.
	PortForwardURL(ctx context.Context, uid types.UID, ports []int32) (*url.URL, error)
	Checkpoint(ctx context.Context, containerID, path string, timeout time.Duration) error
}

// Config configures a Handler.
type Config struct {
	Pods    Pods
	Runtime Runtime
	// MirrorUID returns the UID of the mirror pod of that name, which callers may use for the static pod. Empty: it
	// has none. Nil: no pod has one.
	MirrorUID func(namespace, name string) types.UID
	// CheckpointsDir is the directory of checkpoints: <root-dir>/checkpoints. It is created when needed. Empty: no
	// checkpoints.
	CheckpointsDir string
	// IdleTimeout ends a stream that has carried nothing for so long. Zero: no limit.
	IdleTimeout time.Duration
	// MaxStreams is the limit of concurrent requests, and MaxStreamsPerPod of those for one pod. Zero: 1000, and
	// half of MaxStreams. A pod, a namespace and a user without a certificate get at most as many as are free
	// (package share).
	MaxStreams, MaxStreamsPerPod int
	// Registerer registers the metrics. Nil: no metrics.
	Registerer prometheus.Registerer
	// Logger receives failures of this node. The caller's mistakes are only sent to the caller. Nil discards.
	Logger *slog.Logger
}

// Handler serves the streaming half of the node's API. Its requests must be authenticated and authorized.
type Handler struct {
	cfg     Config
	log     *slog.Logger
	mux     *http.ServeMux
	slots   *slots
	metrics *metrics
	// runtime connects to the runtime's streaming server.
	runtime *http.Transport
	// closed is canceled by Close, and every request with it.
	closed context.Context //nolint:containedctx // It stands for the Handler's life, which no call has.
	end    context.CancelFunc
}

// never is a duration longer than any stream.
const never = 100 * 365 * 24 * time.Hour

// New returns a Handler. The caller must call Close.
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

// Close ends all requests, also those with hijacked connections, and waits for them. Later ones are refused.
func (h *Handler) Close() {
	h.end()
	h.slots.close()
}

// endpoint serves a request for a pod. The error is the response, unless a part of one has been sent.
type endpoint func(w http.ResponseWriter, r *http.Request, pod podview.Pod) error

// handle registers an endpoint for /ROOM/..., whose requests need an existing pod and a free slot.
func (h *Handler) handle(room string, serve endpoint, path string, methods ...string) {
	served := func(w http.ResponseWriter, r *http.Request) error {
		pod, err := h.find(r)
		if err != nil {
			return err
		}
		leave, err := h.slots.take(pod, auth.UserOf(r.Context()))
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
				methodNotAllowed(w, method)
				return
			}
			if err := served(w, r); err != nil {
				h.answer(w, r, err)
			}
		})
	}
}
