package kubeletapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

const (
	// journalTimeout is the time limit of a query; maxQueries is the limit of queries under way.
	journalTimeout = 30 * time.Second
	maxQueries     = 4
)

// logQueries answers queries.
type logQueries struct {
	// files serves /logs/PATH.
	files      http.Handler
	dir        logDir
	journalctl string
	// underWay has an element for each query.
	underWay chan struct{}
}

func newLogQueries(files http.Handler, dir logDir, journalctl string) *logQueries {
	return &logQueries{files: files, dir: dir, journalctl: cmp.Or(journalctl, "journalctl"), underWay: make(chan struct{}, maxQueries)}
}

// ServeHTTP answers a query.
func (l *logQueries) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, unreadable, unacceptable := parseLogQuery(r.URL.Query())
	switch {
	case unreadable != nil:
		answer(w, badRequest("%v", unreadable))
	case strings.Trim(strings.TrimPrefix(r.URL.Path, "/logs"), "/") != "":
		answer(w, notAcceptable("path not allowed in query mode"))
	case unacceptable != nil:
		answer(w, notAcceptable("%v", unacceptable))
	case q.file != "":
		l.serveFile(w, r, q.file)
	default:
		l.serveServices(w, r, &q)
	}
}

// serveFile serves a file as its own path would, which needs the same permission.
func (l *logQueries) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	at := strings.Trim(name, "/")
	if !fs.ValidPath(at) {
		answer(w, notAcceptable("query: Invalid value: %q: it isn't a file in the directory of logs", name))
		return
	}
	of := r.Clone(r.Context())
	of.URL.Path, of.URL.RawQuery = "/logs/"+at, ""
	l.files.ServeHTTP(w, of)
}

// serveServices writes the journal's lines of the services that it has, and the files of the others.
func (l *logQueries) serveServices(w http.ResponseWriter, r *http.Request, q *logQuery) {
	select {
	case l.underWay <- struct{}{}:
		defer func() { <-l.underWay }()
	default:
		w.Header().Set("Retry-After", "10")
		answer(w, tooManyRequests("too many queries of logs are under way"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), journalTimeout)
	defer cancel()
	// A caller that reads slowly has no more time than the journal.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * journalTimeout))

	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	var out io.Writer = w
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		defer func() { _ = compressed.Close() }()
		out = compressed
	}
	inJournal, inFiles := l.split(ctx, q.services)
	if len(inJournal) > 0 {
		l.copyJournal(ctx, out, q.journalArgs(inJournal))
	}
	if len(inFiles) > 0 && q.logOptions != (logOptions{}) {
		_, _ = fmt.Fprintf(out, "\noptions present and query resolved to log files for %v\ntry without specifying options\n", inFiles)
		return
	}
	for _, name := range inFiles {
		if err := l.copyFile(ctx, out, name); err != nil {
			_, _ = fmt.Fprintf(out, "\n%v\n", err)
		}
	}
}

// split returns which services are in the journal. Without a journal none is.
func (l *logQueries) split(ctx context.Context, services []string) (inJournal, inFiles []string) {
	units, _ := l.command(ctx, "--field", "_SYSTEMD_UNIT").Output()
	known := map[string]bool{}
	for line := range bytes.Lines(units) {
		known[strings.TrimSpace(string(line))] = true
	}
	for _, name := range services {
		if known[name] || known[name+".service"] {
			inJournal = append(inJournal, name)
		} else {
			inFiles = append(inFiles, name)
		}
	}
	return inJournal, inFiles
}

// copyJournal writes the output of journalctl, including its errors, which explain what is wrong with the query.
func (l *logQueries) copyJournal(ctx context.Context, w io.Writer, args []string) {
	cmd := l.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = w, w
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		_, _ = io.WriteString(w, "\nerror: journal output not available\n")
	}
}

func (l *logQueries) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.journalctl, args...)
	// Processes that it may have started don't delay the response.
	cmd.WaitDelay = time.Second
	return cmd
}

// copyFile writes NAME, NAME.log or NAME/NAME.log, whichever exists first.
func (l *logQueries) copyFile(ctx context.Context, w io.Writer, name string) error {
	for _, path := range []string{name, name + ".log", name + "/" + name + ".log"} {
		f, err := l.dir.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("error getting log for %s: %w", name, err)
		}
		info, err := f.Stat()
		if err != nil || info.IsDir() {
			_ = f.Close()
			continue
		}
		_, err = io.Copy(w, whileIn{ctx, f})
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("error getting log for %s: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("log not found for %s", name)
}

// whileIn reads until its context ends.
type whileIn struct {
	ctx context.Context //nolint:containedctx // It is used for one copy.
	io.Reader
}

func (r whileIn) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
