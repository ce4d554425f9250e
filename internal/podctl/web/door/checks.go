package door

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/failpoint"
)

// Refusal is why a request was refused.
type Refusal struct {
	// Check is the name of the check that refused it.
	Check string
	// Status is the status of the response.
	Status int
	// Reason explains it in one line, for the user at the terminal. It quotes the request.
	Reason string
}

// check is one check of requests.
type check struct {
	name  string
	fault failpoint.Name
	// refuse returns the status and the reason, or 0.
	refuse func(g *Guard, r *http.Request, allowed rules) (status int, reason string)
}

// checks are the checks, in order. Each one alone stops the attacks beside it:
//
//	host     DNS rebinding: a name of the attacker that leads to 127.0.0.1
//	method   requests that no part of the page makes
//	site     requests of pages of other sites, and of other ports of this machine
//	dest     frames, and scripts or images in foreign pages
//	origin   as site, in browsers that don't send Sec-Fetch-Site; WebSockets, which have no same-origin policy
//	token    other users and programs of this machine; pages of all kinds
var checks = []check{
	{"host", failpoint.WebHost, refuseHost},
	{"method", failpoint.WebMethod, refuseMethod},
	{"site", failpoint.WebSite, refuseSite},
	{"dest", failpoint.WebDest, refuseDest},
	{"origin", failpoint.WebOrigin, refuseOrigin},
	{"token", failpoint.WebToken, refuseToken},
}

// refusal returns the first refusal of a request, or nil.
func (g *Guard) refusal(r *http.Request, class Class) *Refusal {
	allowed, known := ruleOf[class]
	for _, c := range checks {
		if c.name == "method" && !known {
			return &Refusal{Check: "path", Status: http.StatusNotFound, Reason: fmt.Sprintf("there is no %.100q", r.URL.Path)}
		}
		if failpoint.Active(c.fault) {
			continue
		}
		if status, reason := c.refuse(g, r, allowed); status != 0 {
			return &Refusal{Check: c.name, Status: status, Reason: reason}
		}
	}
	return nil
}

func refuseHost(g *Guard, r *http.Request, _ rules) (int, string) {
	if r.Host == g.cfg.Host {
		return 0, ""
	}
	return http.StatusMisdirectedRequest, fmt.Sprintf("it was for the host %.100q; want %s", r.Host, g.cfg.Host)
}

func refuseMethod(_ *Guard, r *http.Request, allowed rules) (int, string) {
	if slices.Contains(allowed.methods, r.Method) {
		return 0, ""
	}
	return http.StatusMethodNotAllowed, fmt.Sprintf("its method is %.20q; want %s", r.Method, strings.Join(allowed.methods, " or "))
}

func refuseSite(_ *Guard, r *http.Request, allowed rules) (int, string) {
	sites := r.Header.Values("Sec-Fetch-Site")
	switch {
	case len(sites) == 0 && allowed.unsaid:
		return 0, ""
	case len(sites) == 1 && slices.Contains(allowed.sites, sites[0]):
		return 0, ""
	case len(sites) == 0:
		return http.StatusForbidden, "it has no Sec-Fetch-Site: the browser is too old, or it wasn't a browser"
	}
	return http.StatusForbidden, fmt.Sprintf("it came from another site: Sec-Fetch-Site is %.50q", strings.Join(sites, ", "))
}

// frames are the destinations in which another page shows the response.
var frames = []string{"iframe", "frame", "embed", "object", "fencedframe"}

func refuseDest(_ *Guard, r *http.Request, allowed rules) (int, string) {
	dests := r.Header.Values("Sec-Fetch-Dest")
	if len(dests) == 0 {
		return 0, ""
	}
	dest := strings.Join(dests, ", ")
	if slices.Contains(frames, dest) || len(allowed.dests) > 0 && !slices.Contains(allowed.dests, dest) {
		return http.StatusForbidden, fmt.Sprintf("it was for use as %.50q in a page", dest)
	}
	return 0, ""
}

func refuseOrigin(g *Guard, r *http.Request, allowed rules) (int, string) {
	origins := r.Header.Values("Origin")
	switch {
	case len(origins) == 0 && !allowed.origin:
		return 0, ""
	case len(origins) == 1 && origins[0] == "http://"+g.cfg.Host:
		return 0, ""
	}
	return http.StatusForbidden, fmt.Sprintf("its origin is %.100q; want http://%s", strings.Join(origins, ", "), g.cfg.Host)
}

func refuseToken(g *Guard, r *http.Request, allowed rules) (int, string) {
	if !allowed.token {
		return 0, ""
	}
	values := r.Header.Values("Authorization")
	if len(values) == 1 {
		if token, ok := strings.CutPrefix(values[0], "Bearer "); ok && g.cfg.Sessions.Valid(token) {
			return 0, ""
		}
	}
	return http.StatusUnauthorized, "it has no token of a session"
}
