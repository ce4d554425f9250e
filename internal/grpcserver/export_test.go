package grpcserver

// Connections are how many connections the server counts now, by peer.
func (s *Server) Connections() map[string]int {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	out := map[string]int{}
	for peer, n := range s.guard.peers {
		out[peer] = n
	}
	return out
}

// Forgotten tells whether the server remembers nothing of any connection.
func (s *Server) Forgotten() bool {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return len(s.guard.peers)+len(s.guard.open)+len(s.guard.known) == 0
}

// RefusalPeers makes the log of refusals meet that many peers, and returns how many of them it remembers.
func (s *Server) RefusalPeers(peers []string) int {
	for _, peer := range peers {
		s.guard.refusals.add(handshake, peer, errClosing)
	}
	return len(s.guard.refusals.logged)
}
