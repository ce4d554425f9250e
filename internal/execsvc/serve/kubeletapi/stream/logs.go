package stream

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// logBuffer is the size of a write if so much can be read.
const logBuffer = 32 << 10

// logs sends a container's log, and follows it if requested.
func (h *Handler) logs(w http.ResponseWriter, r *http.Request, pod podview.Pod) error {
	options, err := parseLogOptions(r.URL.Query(), time.Now())
	if err != nil {
		return err
	}
	name := r.PathValue("container")
	c, ok := containerOf(pod, name)
	if !ok {
		return notFound("container %q not found in pod %q", name, pod.Name)
	}
	attempts, id, err := whichLog(pod.Name, c, options.previous)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	out := newBody(r.Context(), w, h.cfg.IdleTimeout, logBuffer)
	defer out.end()
	in := runtime.LogInput{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Container: name, ContainerID: id, Follow: options.follow,
		Since: options.since, TailLines: options.tail, LimitBytes: options.limit, Timestamps: options.timestamps, Idle: out.flush,
	}
	if options.stdout {
		in.Stdout = out
	}
	if options.stderr {
		in.Stderr = out
	}
	// The API server's follows belong to many users.
	if user := auth.UserOf(r.Context()); user != nil && !user.Certificate {
		in.Caller = user.Name
	}
	err = runtime.ErrNoLog
	for _, in.Attempt = range attempts {
		if err = h.cfg.Runtime.ReadLog(r.Context(), in); !errors.Is(err, runtime.ErrNoLog) {
			break
		}
	}
	switch {
	case errors.Is(err, runtime.ErrNoLog):
		return notFound("the log of container %q in pod %q isn't there any more", name, pod.Name)
	case err == nil || r.Context().Err() != nil:
		_ = out.flush() // The error of a caller that is gone doesn't matter.
		return nil
	case !out.sent:
		return err
	}
	// The status has been sent already; the error can only be appended.
	_, _ = io.WriteString(out, err.Error()+"\n")
	_ = out.flush()
	return nil
}
