package door

import (
	"net/http"
	"strings"
)

// Class is a kind of request, with its own rules.
type Class int

const (
	// Unknown paths don't exist.
	Unknown Class = iota
	// Document is the page itself: the only one that another site may lead to, by a link.
	Document
	// Asset is a file of the page.
	Asset
	// Login exchanges a ticket for a session.
	Login
	// Call is a call of the API.
	Call
	// Socket is a WebSocket, whose first message has the session's token.
	Socket
	// Report is a browser's report that the content security policy was violated.
	Report
)

// rules are what a class allows.
type rules struct {
	methods []string
	// sites are the allowed values of Sec-Fetch-Site; unsaid allows a request without it.
	sites  []string
	unsaid bool
	// dests are the allowed values of Sec-Fetch-Dest, if the request has it. Empty: all but those of frames.
	dests []string
	// origin requires the header Origin. If a request has one, it is checked in any class.
	origin bool
	token  bool
	body   int64
}

const (
	sameOrigin = "same-origin"
	// maxCall is the maximum size of a call: a manifest of 3 MiB in JSON.
	maxCall = 5 << 20
)

// ruleOf has the rules of each class. Browsers send Sec-Fetch-Site to 127.0.0.1 with each request, but not all of them
// with that of a WebSocket or of a report.
var ruleOf = map[Class]rules{
	Document: {
		methods: []string{http.MethodGet, http.MethodHead},
		sites:   []string{"none", sameOrigin, "same-site", "cross-site"}, dests: []string{"document"},
	},
	Asset: {methods: []string{http.MethodGet, http.MethodHead}, sites: []string{sameOrigin}},
	Login: {methods: []string{http.MethodPost}, sites: []string{sameOrigin}, dests: []string{"empty"}, origin: true, body: 4 << 10},
	Call: {
		methods: []string{http.MethodPost}, sites: []string{sameOrigin}, dests: []string{"empty"}, origin: true, token: true,
		body: maxCall,
	},
	Socket: {
		methods: []string{http.MethodGet}, sites: []string{sameOrigin}, unsaid: true, dests: []string{"empty", "websocket"}, origin: true,
	},
	Report: {
		methods: []string{http.MethodPost}, sites: []string{sameOrigin}, unsaid: true, dests: []string{"report", "empty"}, body: 16 << 10,
	},
}

// Paths are the paths of the classes.
type Paths struct {
	// Login is the path of the call that opens a session. API is the prefix of all calls.
	Login, API string
	// Socket and Report are whole paths.
	Socket, Report string
	// IsAsset reports whether the page has a file of the name.
	IsAsset func(name string) bool
}

// class returns the class of a path.
func (p Paths) class(path string) Class {
	switch {
	case path == "/":
		return Document
	case path == p.Login:
		return Login
	case strings.HasPrefix(path, p.API):
		return Call
	case path == p.Socket:
		return Socket
	case path == p.Report:
		return Report
	}
	if name, ok := strings.CutPrefix(path, "/"); ok && p.IsAsset(name) {
		return Asset
	}
	return Unknown
}
