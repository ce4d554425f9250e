package grpcserver

// Connections returns the number of counted connections, by peer.
func (s *Server) Connections() map[string]int {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	out := map[string]int{}
	for peer, n := range s.guard.peers {
		out[peer] = n
	}
	return out
}

// NoConnections reports whether the server keeps no record of any connection.
func (s *Server) NoConnections() bool {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return len(s.guard.peers)+len(s.guard.open)+len(s.guard.known)+len(s.guard.shares.held)+len(s.guard.shares.addresses) == 0
}

// RefusalPeers sends refusals of that many peers to the log, and returns how many of them it keeps.
func (s *Server) RefusalPeers(peers []string) int {
	for _, peer := range peers {
		s.guard.refusals.add(handshake, peer, errClosing)
	}
	return len(s.guard.refusals.logged)
}

// Receiving returns how many streams' requests are being received.
func (s *Server) Receiving() int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	n := 0
	for _, tokens := range s.calls.receiving {
		n += len(tokens)
	}
	return n
}
