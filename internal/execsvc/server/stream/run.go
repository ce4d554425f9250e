package stream

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/runtime"
)

// runBuffer is how much a command may write until the answer has begun, and its exit code can't make it another one any more.
const runBuffer = 64 << 10

// run runs a command in a container and sends what it writes.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, pod board.Pod) error {
	_, id, err := running(r, pod)
	if err != nil {
		return err
	}
	command := r.URL.Query().Get("cmd")
	if command == "" {
		return fail(http.StatusBadRequest, "cmd: is empty")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	output := newBody(r.Context(), w, h.cfg.IdleTimeout, runBuffer)
	defer output.end()
	// Both streams are written to side by side.
	var (
		writing sync.Mutex
		over    bool // Nobody waits for what is still written.
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
	// A command that is left may go on writing for a moment.
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
		w.WriteHeader(http.StatusInternalServerError)
	default:
		return err
	}
	_ = output.flush() // A caller who is gone needs no answer.
	return nil
}
