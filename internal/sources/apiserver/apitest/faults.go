package apitest

import "time"

// Admit allows only clients with one of these tokens, or a certificate of one of these common names. Without any, no
// client is allowed; a new server allows all. Open watches go on.
func (s *Server) Admit(users ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted = map[string]bool{}
	for _, user := range users {
		s.admitted[user] = true
	}
}

// Answer makes f decide how each request is answered. If f returns nil, the answer is the usual one; a nil f ends it.
// It is called concurrently.
func (s *Server) Answer(f func(Request) *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Inject sends raw bytes into each open watch.
func (s *Server) Inject(raw []byte) { s.inject(frame{raw: raw}) }

// EndWatches ends each open watch, and keeps the connections.
func (s *Server) EndWatches() { s.inject(frame{cut: true}) }

func (s *Server) inject(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.push(f)
	}
}

// TruncateNext cuts each open watch off in the middle of its next event.
func (s *Server) TruncateNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.mu.Lock()
		w.truncate = true
		w.mu.Unlock()
	}
}

// DropConnections closes all connections. New ones are accepted.
func (s *Server) DropConnections() { s.network.drop() }

// Silence makes all connections, and new ones too, stay open and transfer nothing in either direction, until it is
// called with false.
func (s *Server) Silence(on bool) { s.network.silence(on) }

// Mute makes the current connections stay open and transfer nothing any more, as if a router had dropped their state.
// New ones work.
func (s *Server) Mute() { s.network.mute() }

// Lag makes the server answer resourceVersion=0 from now on with its current state, as a replica whose cache lags
// behind.
func (s *Server) Lag() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag()
}

// HoldEvents makes the open watches have no event until it is called with false: then they have all that they missed.
func (s *Server) HoldEvents(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.held = map[*watch][]frame{}
		return
	}
	for w, frames := range s.held {
		for _, f := range frames {
			w.push(f)
		}
	}
	s.held = nil
}

// Slow makes the server send at most so many bytes at once, with a pause after each. Zero ends it.
func (s *Server) Slow(size int, pause time.Duration) { s.network.slow(size, pause) }
