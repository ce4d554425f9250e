package stream

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// runBuffer is how much a command may write until the response begins; after that its exit code can't change the
// status.
const runBuffer = 64 << 10

// run runs a command in a container and sends its output.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, pod podview.Pod) error {
	_, id, err := running(r, pod)
	if err != nil {
		return err
	}
	command := r.URL.Query().Get("cmd")
	if command == "" {
		return badRequest("cmd: is empty")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	output := newBody(r.Context(), w, h.cfg.IdleTimeout, runBuffer)
	defer output.end()
	// Both streams are written concurrently.
	var (
		writing sync.Mutex
		over    bool // Later output is dropped.
	)
	both := writerFunc(func(p []byte) (int, error) {
		writing.Lock()
		defer writing.Unlock()
		if over {
			return 0, io.ErrClosedPipe
		}
		return output.Write(p)
	})
	code, err := h.cfg.Runtime.Exec(r.Context(), runtime.ExecInput{
		ContainerID: id, Command: strings.Split(command, " "), Stdout: both, Stderr: both,
	})
	// An abandoned command may still write for a moment.
	writing.Lock()
	defer writing.Unlock()
	over = true
	if err == nil && code != 0 {
		err = fmt.Errorf("command terminated with exit code %d", code)
	}
	switch {
	case err == nil:
	case output.sent:
		fmt.Fprintf(output, "\n%v\n", err)
	case output.buffer.Buffered() > 0:
		fmt.Fprintf(output, "\n%v\n", err)
		w.WriteHeader(failedCommand)
	default:
		return err
	}
	_ = output.flush() // The error of a caller that is gone doesn't matter.
	return nil
}
