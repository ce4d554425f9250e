package door

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
)

// GuardConfig configures a Guard. All fields but OnRefused are needed.
type GuardConfig struct {
	// Host is the address of the page, as browsers write it: "127.0.0.1:8080".
	Host     string
	Paths    Paths
	Sessions *Sessions
	// OnRefused is called for each refused request, in its goroutine. Nil means no call.
	OnRefused func(Refusal)
}

// The times of requests.
const (
	// bodyTime is how long the body of a request may take.
	bodyTime = 20 * time.Second
	// writeTime is how long the client may take for each piece of a response. A tab that doesn't read for so long comes
	// back with its cursors.
	writeTime = 30 * time.Second
)

// Guard lets requests through to the handlers. It is safe for concurrent use.
type Guard struct {
	cfg  GuardConfig
	next http.Handler
}

// NewGuard returns a Guard before the handlers.
func NewGuard(cfg GuardConfig, next http.Handler) *Guard {
	if cfg.OnRefused == nil {
		cfg.OnRefused = func(Refusal) {}
	}
	return &Guard{cfg: cfg, next: next}
}

// ServeHTTP implements http.Handler.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.setHeaders(w.Header())
	class := g.cfg.Paths.class(r.URL.Path)
	refused := g.refusal(r, class)
	if refused == nil {
		refused = g.readBody(w, r, class)
	}
	if refused != nil {
		g.cfg.OnRefused(*refused)
		// What the refused client is still sending isn't read.
		w.Header().Set("Connection", "close")
		http.Error(w, refused.Check, refused.Status)
		return
	}
	if ruleOf[class].token {
		trust(r.Context())
	}
	if class != Socket {
		w = &timedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	}
	g.next.ServeHTTP(w, r)
}

// readBody replaces the body by one in memory. A body that is read whole can't keep a handler waiting, and the server then
// notices when the client goes away.
func (g *Guard) readBody(w http.ResponseWriter, r *http.Request, class Class) *Refusal {
	limit := ruleOf[class].body
	if failpoint.Active(failpoint.WebBody) {
		limit = 1 << 30
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return &Refusal{Check: "body", Status: http.StatusInternalServerError, Reason: err.Error()}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &Refusal{Check: "body", Status: http.StatusRequestEntityTooLarge, Reason: "its body is too large"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Refusal{Check: "body", Status: http.StatusRequestTimeout, Reason: "its body took too long"}
	case err != nil:
		return &Refusal{Check: "body", Status: http.StatusBadRequest, Reason: "its body can't be read: " + err.Error()}
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return &Refusal{Check: "body", Status: http.StatusInternalServerError, Reason: err.Error()}
	}
	return nil
}

// timedWriter gives the client a time for each piece of a response.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap is used by http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *timedWriter) Write(p []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher. The next Write returns an error that it has.
func (w *timedWriter) Flush() {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTime))
	_ = w.control.Flush()
}
