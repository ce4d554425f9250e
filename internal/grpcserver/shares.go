package grpcserver

import (
	"fmt"

	"github.com/podstream/podstream/internal/access"
)

// peersPerAddress is the ratio of the bound of an IP address to that of one peer. All but one of these parts are for
// any role. The last part is for consumers and operators.
const peersPerAddress = 4

// holder is a peer for the limits: a uid, or an identity at an IP address. All callers without a role at one address
// are one holder, as any certificate of the client CAs can make such a caller.
type holder struct {
	address, identity string
	// weak is set if the caller's role is less than consumer.
	weak bool
}

func holderOf(c access.Caller) holder {
	if c.Role == access.None {
		return holder{address: c.Peer, weak: true}
	}
	return holder{c.Peer, c.Identity, c.Role < access.Consumer}
}

func (h holder) String() string {
	switch h.identity {
	case h.address:
		return h.address
	case "":
		return h.address + " without a role"
	default:
		return h.identity + " at " + h.address
	}
}

// shares counts places of one kind, and divides those of an address among its holders. A holder gets no more than
// most, and no more than are free at its address, so no holder can take all of them. It isn't safe for concurrent
// use.
type shares struct {
	most      int
	held      map[holder]int
	addresses map[string]addressShare
}

// addressShare is the number of places of the holders at an address, and that of the weak ones among them.
type addressShare struct{ all, weak int }

func newShares(most int) *shares {
	return &shares{most: most, held: map[holder]int{}, addresses: map[string]addressShare{}}
}

// check returns an error if h may not have another place. what names the kind of place.
func (s *shares) check(h holder, what string) error {
	held, at := s.held[h], s.addresses[h.address]
	free := peersPerAddress*s.most - at.all
	if h.weak {
		free = min(free, (peersPerAddress-1)*s.most-at.weak)
	}
	switch {
	case held >= s.most:
		return fmt.Errorf("%v has %d %s already", h, held, what)
	case free <= 0 || held > 0 && held >= free:
		return fmt.Errorf("%v has %d %s already, and all callers at its address have %d", h, held, what, at.all)
	}
	return nil
}

// add adds one place of h, or with -1 removes one.
func (s *shares) add(h holder, n int) {
	at := s.addresses[h.address]
	at.all += n
	if h.weak {
		at.weak += n
	}
	s.addresses[h.address] = at
	if at.all == 0 {
		delete(s.addresses, h.address)
	}
	if s.held[h] += n; s.held[h] == 0 {
		delete(s.held, h)
	}
}
