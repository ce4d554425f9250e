package stream

import (
	"context"
	"net/http"
	"net/url"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// exec runs a command in a container with the caller's streams.
func (h *Handler) exec(w http.ResponseWriter, r *http.Request, pod podview.Pod) error {
	in, err := streamsOf(r.URL.Query())
	if err != nil {
		return err
	}
	if _, in.ContainerID, err = running(r, pod); err != nil {
		return err
	}
	in.Command = r.URL.Query()["command"]
	if len(in.Command) == 0 {
		return badRequest("you must specify at least one command for the container")
	}
	return h.remote(w, r, remote{"exec", in, h.cfg.Runtime.ExecURL, h.cfg.Runtime.Exec})
}

// attach connects the caller to the streams of a container's main process.
func (h *Handler) attach(w http.ResponseWriter, r *http.Request, pod podview.Pod) error {
	in, err := streamsOf(r.URL.Query())
	if err != nil {
		return err
	}
	var c container
	if c, in.ContainerID, err = running(r, pod); err != nil {
		return err
	}
	// A process has a terminal from its start, or never.
	if in.TTY = c.tty; in.TTY && in.Stderr {
		return badRequest("container %q has a terminal, so its stderr can't be told from its stdout", c.name)
	}
	return h.remote(w, r, remote{"attach", in, h.cfg.Runtime.AttachURL, func(ctx context.Context, in runtime.ExecInput) (int, error) {
		return 0, h.cfg.Runtime.Attach(ctx, in)
	}})
}

// streamsOf returns the streams of a query. As in the kubelet a terminal has no stderr.
func streamsOf(query url.Values) (runtime.StreamInput, error) {
	in := runtime.StreamInput{
		Stdin: query.Get("input") == "1", Stdout: query.Get("output") == "1", Stderr: query.Get("error") == "1", TTY: query.Get("tty") == "1",
	}
	if in.TTY {
		in.Stderr = false
	}
	if !in.Stdin && !in.Stdout && !in.Stderr {
		return in, badRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	return in, nil
}

// remote is an operation with the streams of a container.
type remote struct {
	room string
	in   runtime.StreamInput
	// url returns the runtime's URL of the streams; run makes the runtime use the given ones.
	url func(ctx context.Context, in runtime.StreamInput) (*url.URL, error)
	run func(ctx context.Context, in runtime.ExecInput) (exitCode int, err error)
}

// remote passes the caller on to the runtime, which supports SPDY and older WebSocket protocols. Other protocols are
// translated.
func (h *Handler) remote(w http.ResponseWriter, r *http.Request, do remote) error {
	if err := upgradeRequired(r); err != nil {
		return err
	}
	if speaksChannels(r) {
		h.metrics.websockets.WithLabelValues(do.room).Inc()
		return h.channels(w, r, do.in, do.run)
	}
	u, err := do.url(r.Context(), do.in)
	if err != nil {
		return err
	}
	return h.pass(w, r, u)
}
