package passthrough

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"github.com/podstream/podstream/internal/peernet"
)

// places counts the connections, in all and by address, and those of them whose ClientHello is incomplete.
type places struct {
	most, mostOfAddress, mostHellos int

	mu  sync.Mutex
	all int
	// hellos are the places with an incomplete ClientHello, the oldest first.
	hellos  *list.List
	address map[string]*share
}

// share is the part of places of an address.
type share struct {
	all    int
	hellos *list.List
}

// place is that of one connection. inAll and inShare are its elements in the lists of hellos, nil once it is in none.
type place struct {
	conn           net.Conn
	key            string
	share          *share
	inAll, inShare *list.Element
}

func newPlaces(c Config) places {
	return places{
		most: c.MaxConnections, mostOfAddress: c.MaxPerAddress, mostHellos: c.MaxHellos, hellos: list.New(), address: map[string]*share{},
	}
}

// addressKey returns what a client is counted by: see peernet.Of.
func addressKey(remote net.Addr) string {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return remote.String()
	}
	return peernet.Of(at.Addr())
}

// take takes a place for a new connection. It may close an older one whose ClientHello is incomplete.
func (s *places) take(conn net.Conn) (*place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &place{conn: conn, key: addressKey(conn.RemoteAddr())}
	if p.share = s.address[p.key]; p.share == nil {
		p.share = &share{hellos: list.New()}
	}
	own := p.share
	switch {
	case own.hellos.Len() > 0 && (own.hellos.Len() >= max(1, s.mostHellos/2) || s.full(own)):
		s.displace(own.hellos)
	case s.hellos.Len() > 0 && (s.hellos.Len() >= s.mostHellos || s.all >= s.most):
		s.displace(s.hellos)
	}
	if s.full(own) {
		return nil, false
	}
	s.all++
	own.all++
	s.address[p.key] = own
	p.inAll, p.inShare = s.hellos.PushBack(p), own.hellos.PushBack(p)
	return p, true
}

// full reports whether an address may have no further place. The caller holds mu.
func (s *places) full(own *share) bool {
	free := s.most - s.all
	return free <= 0 || own.all >= s.mostOfAddress || own.all > 0 && own.all >= free
}

// displace closes the oldest connection of a list of hellos. The caller holds mu.
func (s *places) displace(of *list.List) {
	p := of.Front().Value.(*place)
	s.settle(p)
	s.uncount(p)
	_ = p.conn.Close()
}

func (s *places) settle(p *place) {
	s.hellos.Remove(p.inAll)
	p.share.hellos.Remove(p.inShare)
	p.inAll, p.inShare = nil, nil
}

func (s *places) uncount(p *place) {
	s.all--
	if p.share.all--; p.share.all == 0 {
		delete(s.address, p.key)
	}
	p.share = nil
}

// helloRead is called once the ClientHello was read, or has failed. It returns false if the place was given to another
// connection.
func (s *places) helloRead(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.share == nil {
		return false
	}
	s.settle(p)
	return true
}

// give returns a place.
func (s *places) give(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.share != nil {
		s.uncount(p)
	}
}
