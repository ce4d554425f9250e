package kubeletapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// route is the handler of a path.
type route struct {
	// methods are the allowed methods. Nil: all.
	methods []string
	handler http.Handler
	// long is set if there is no time limit.
	long bool
}

// routes are the paths of a port.
type routes struct {
	// exact are whole paths, and trees paths with everything beneath. None ends in a slash; requests may.
	exact, trees map[string]*route
}

func newRoutes() *routes { return &routes{exact: map[string]*route{}, trees: map[string]*route{}} }

var (
	onlyGet = []string{http.MethodGet}
	// getOrHead are for /healthz, which probes read with HEAD too.
	getOrHead = []string{http.MethodGet, http.MethodHead}
)

// find returns the route of a request: of its path, also if the error is errMethod. The path must be clean.
func (rs *routes) find(method, path string) (*route, error) {
	path = strings.TrimSuffix(path, "/")
	found := rs.exact[path]
	for tree := path; found == nil && tree != ""; tree = tree[:strings.LastIndexByte(tree, '/')] {
		found = rs.trees[tree]
	}
	switch {
	case found == nil:
		return nil, errNoPage
	case found.methods != nil && !slices.Contains(found.methods, method):
		return found, errMethod
	default:
		return found, nil
	}
}

func (s *Server) healthRoutes() *routes {
	rs := newRoutes()
	rs.trees["/healthz"] = &route{methods: getOrHead, handler: s.health()}
	return rs
}

// openRoutes returns the routes that need no authentication, as in the kubelet.
func (s *Server) openRoutes() *routes {
	rs := s.healthRoutes()
	rs.exact["/pods"] = &route{methods: onlyGet, handler: http.HandlerFunc(s.pods)}
	for path, handler := range s.cfg.Handlers {
		rs.exact[path] = &route{methods: onlyGet, handler: handler}
	}
	rs.exact["/metrics/slis"] = &route{methods: onlyGet, handler: promhttp.HandlerFor(s.slis.registry, promhttp.HandlerOpts{})}
	return rs
}

// streams are the paths of Config.Streams.
var streams = []string{"/containerLogs", "/exec", "/attach", "/portForward", "/run", "/checkpoint"}

// allRoutes returns the routes for authorized callers.
func (s *Server) allRoutes() *routes {
	rs := s.openRoutes()
	if !s.cfg.Debug.Handlers {
		off := disabled("Debug endpoints are disabled.")
		for _, path := range []string{"/run", "/exec", "/attach", "/portForward", "/containerLogs", "/runningpods", "/debug/pprof", "/logs"} {
			rs.trees[path] = off
		}
		return rs
	}
	for _, path := range streams {
		if s.cfg.Streams != nil {
			rs.trees[path] = &route{handler: s.cfg.Streams, long: true}
		}
	}
	rs.exact["/runningpods"] = &route{methods: onlyGet, handler: http.HandlerFunc(s.runningPods)}
	if s.cfg.Configuration != nil {
		rs.exact["/configz"] = &route{methods: onlyGet, handler: http.HandlerFunc(s.configuration)}
	}
	rs.trees["/logs"] = s.logsRoute()
	rs.trees["/debug/pprof"] = s.profilingRoute()
	rs.exact["/debug/flags/v"] = s.verbosityRoute()
	s.addPages(rs)
	return rs
}

// disabled returns the route of a disabled endpoint.
func disabled(message string) *route {
	return &route{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, methodNotAllowed("%s", message))
	})}
}
