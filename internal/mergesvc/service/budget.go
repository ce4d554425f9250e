package service

import (
	"fmt"
	"sync"

	"github.com/podstream/podstream/internal/access"
)

// isOwner reports whether the caller is root or podconfigd's own user; podexecd is one of them. Shares don't limit
// owners, and the reserve of each limit is for them alone.
func isOwner(caller access.Caller) bool { return caller.IsOwner() }

// share limits what callers may have at once: total is for all of them, each is for one identity. reserve is the part
// of total that only owners get.
type share struct {
	total, each, reserve int
}

// sharedAmount counts what callers have of a share.
type sharedAmount struct {
	share
	mu    sync.Mutex
	used  int
	byWho map[string]int
}

func newSharedAmount(s share) *sharedAmount {
	return &sharedAmount{share: s, byWho: map[string]int{}}
}

// take adds n to what the caller has. It returns false, and the limit, if that would exceed it.
func (s *sharedAmount) take(caller access.Caller, n int) (limit int, own, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, each := s.total, s.total
	if !isOwner(caller) {
		most, each = s.total-s.reserve, s.each
	}
	switch {
	case n > each-s.byWho[caller.Identity]:
		return each, true, false
	case n > most-s.used:
		return most, false, false
	}
	s.used += n
	s.byWho[caller.Identity] += n
	return 0, false, true
}

// give takes n back.
func (s *sharedAmount) give(caller access.Caller, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.byWho[caller.Identity] -= n; s.byWho[caller.Identity] == 0 {
		delete(s.byWho, caller.Identity)
	}
}

// keptShare is how many bytes of filters, known_pods and known_objects podconfigd keeps for open streams.
// podconfig.v1 documents it.
var keptShare = share{total: 64 << 20, each: 16 << 20, reserve: 16 << 20}

// kept is what one stream has of keptShare; the zero value has nothing. Only the stream's goroutine uses it.
type kept struct {
	of  *sharedAmount
	sub *subscription
	// filter is charged as long as the stream lasts, known as long as known pods or objects are needed.
	filter, known int
}

// keep charges a stream for its filter and its known pods or objects.
func keep(of *sharedAmount, sub *subscription, known int) (kept, error) {
	k := kept{of: of, sub: sub, filter: sub.filterSize, known: known}
	if limit, own, ok := of.take(sub.caller, k.filter+k.known); !ok {
		which := "all streams"
		if own {
			which = fmt.Sprintf("the streams of %s", sub.caller.Identity)
		}
		return kept{}, resourceExhausted("filter and known pods or objects of this request take about %d bytes, and those of %s may take %d at once; try again later, "+
			"with a smaller filter, or without known pods", k.filter+k.known, which, limit)
	}
	return k, nil
}

// settled ends the charge for known pods or objects.
func (k *kept) settled() {
	if k.known > 0 {
		k.of.give(k.sub.caller, k.known)
		k.known = 0
	}
}

// end ends the charge.
func (k *kept) end() {
	if k.of != nil {
		k.of.give(k.sub.caller, k.filter+k.known)
		k.filter, k.known = 0, 0
	}
}

// knownOverhead is about the memory of a known pod or object beside the bytes of its strings.
const knownOverhead = 384
