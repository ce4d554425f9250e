package kubeletapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// logWait is the number of milliseconds that a log may be full before it counts as blocked.
const logWait = 200

// check is a check of /healthz.
type check struct {
	name string
	ask  func() error
}

// health serves /healthz and a path beneath for each check, in the format of k8s.io/apiserver/pkg/server/healthz.
func (s *Server) health() http.Handler {
	checks := []check{{"ping", func() error { return nil }}, {"log", s.logging}}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Checks)) {
		checks = append(checks, check{name, s.cfg.Checks[name]})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private")
		name := strings.Trim(strings.TrimPrefix(r.URL.Path, "/healthz"), "/")
		if name == "" {
			s.allChecks(w, r, checks)
			return
		}
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
		if i < 0 {
			answer(w, errNoPage)
			return
		}
		if err := checks[i].ask(); err != nil {
			answer(w, internal("internal server error: %v", err))
			return
		}
		plain(w, "ok")
	})
}

// allChecks writes which checks fail. The reasons are only logged.
func (s *Server) allChecks(w http.ResponseWriter, r *http.Request, checks []check) {
	var (
		out    strings.Builder
		failed []error
	)
	query := r.URL.Query()
	excluded := slices.Clone(query["exclude"])
	for _, c := range checks {
		if slices.Contains(excluded, c.name) {
			excluded = slices.DeleteFunc(excluded, func(name string) bool { return name == c.name })
			_, _ = fmt.Fprintf(&out, "[+]%s excluded: ok\n", c.name)
			continue
		}
		err := c.ask()
		s.slis.checked(c.name, err)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.name, err))
			_, _ = fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.name)
			continue
		}
		_, _ = fmt.Fprintf(&out, "[+]%s ok\n", c.name)
	}
	if len(excluded) > 0 {
		_, _ = fmt.Fprintf(&out, "warn: some health checks cannot be excluded: no matches for %q\n", excluded)
	}
	if !query.Has("exclude") { // With exclusions the result is incomplete.
		s.healthChanged(errors.Join(failed...))
	}
	switch {
	case len(failed) > 0:
		answer(w, internal("%shealthz check failed", out.String()))
	case query.Has("verbose"):
		plain(w, out.String()+"healthz check passed\n")
	default:
		plain(w, "ok")
	}
}

// healthChanged logs failures when they begin, change or end.
func (s *Server) healthChanged(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if before := s.unhealthy.Swap(&now); before != nil && *before == now || before == nil && now == "" {
		return
	}
	if err != nil {
		s.log.Warn("/healthz reports failed checks", "error", err)
	} else {
		s.log.Info("/healthz reports no failed checks any more")
	}
}

// logging returns an error if a log line couldn't be written now: a full pipe without a reader would block all
// logging goroutines.
func (s *Server) logging() error {
	raw, err := s.cfg.LogOutput.SyscallConn()
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	blocked := false
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, logWait)
		blocked = err == nil && n == 0
	})
	switch {
	case err != nil:
		return fmt.Errorf("look at the log: %w", err)
	case blocked:
		return errors.New("logging blocked")
	}
	return nil
}

func plain(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text))
}
