package kubeletapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
)

// profilingRoute serves the profiles of package runtime.
func (s *Server) profilingRoute() *route {
	if !s.cfg.Debug.Profiling {
		return disabled("profiling endpoint is disabled.")
	}
	return &route{methods: onlyGet, long: true, handler: s.patiently(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
		case "profile":
			pprof.Profile(w, r)
		case "symbol":
			pprof.Symbol(w, r)
		case "cmdline":
			pprof.Cmdline(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Index(w, r)
		}
	}))}
}

// verbosityRoute serves /debug/flags/v.
func (s *Server) verbosityRoute() *route {
	if s.cfg.Debug.SetVerbosity == nil {
		return disabled("flags endpoint is disabled.")
	}
	return &route{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			answer(w, notAcceptable("unsupported http method"))
			return
		}
		level, err := io.ReadAll(r.Body)
		if err == nil {
			err = s.cfg.Debug.SetVerbosity(string(level))
		}
		if err != nil {
			answer(w, badRequest("%v", err))
			return
		}
		plain(w, fmt.Sprintf("successfully set the log's verbosity to %s", printable(string(level))))
	})}
}
