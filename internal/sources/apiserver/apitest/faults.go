package apitest

import "time"

// Admit lets in only those who show one of these tokens, or a certificate of one of these common names. With none, nobody is let
// in; a new server lets everybody in. Watches that are open go on.
func (s *Server) Admit(users ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted = map[string]bool{}
	for _, user := range users {
		s.admitted[user] = true
	}
}

// Answer makes the server ask how to answer each request. Where f says nil, the answer is the usual one; a nil f ends it. It is
// called from many goroutines.
func (s *Server) Answer(f func(Request) *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Inject sends raw bytes into each open watch.
func (s *Server) Inject(raw []byte) { s.inject(frame{raw: raw}) }

// EndWatches breaks each open watch off, and lets the connections be.
func (s *Server) EndWatches() { s.inject(frame{cut: true}) }

func (s *Server) inject(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.push(f)
	}
}

// TruncateNext cuts each watch that is open off in the middle of its next event.
func (s *Server) TruncateNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.mu.Lock()
		w.truncate = true
		w.mu.Unlock()
	}
}

// DropConnections closes all connections. New ones are taken.
func (s *Server) DropConnections() { s.network.drop() }

// Silence makes all connections, and new ones too, stay open and carry nothing in either direction, until it is called with
// false.
func (s *Server) Silence(on bool) { s.network.silence(on) }

// Mute makes the connections that are open now stay open and carry nothing any more, as if something on the way had forgotten
// them. New ones work.
func (s *Server) Mute() { s.network.mute() }

// Lag makes the server answer resourceVersion=0 from now on with what it has now, as a replica whose cache doesn't come after.
func (s *Server) Lag() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag()
}

// Slow makes the server send at most so many bytes at once, with a pause after each. Zero ends it.
func (s *Server) Slow(size int, pause time.Duration) { s.network.slow(size, pause) }
