package failover

import (
	"slices"
	"time"
)

const (
	// checkInterval is the interval at which the server's health is checked, lengthened at random by up to half. It is
	// shorter if Config.ReturnAfter is below fullAge.
	checkInterval = 20 * time.Second
	// maxBad is after how many checks that fail in succession another server is looked for, and maxLook the largest
	// number of checks between two such searches, which get rarer.
	maxBad, maxLook = 2, 16
)

// supervise checks the current server, and moves to another one if that is better, until Close.
func (c *Conn) supervise() {
	var checked *link
	var bad int
	var returnAt time.Time
	for {
		timer := time.NewTimer(jittered(c.interval))
		select {
		case <-c.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		l := c.now()
		if l != checked {
			// The age of the connection is known to an interval, which is enough.
			checked, bad, returnAt = l, 0, time.Now().Add(jittered(max(c.cfg.ReturnAfter, 0)))
		}
		if l == nil {
			continue
		}
		// The only candidate isn't checked, as in choose. Its host may have more addresses by now.
		if !c.Several() {
			bad = 0
		} else if v, _ := c.check(c.ctx, l); v == serving {
			bad = 0
		} else {
			bad++
		}
		switch {
		case looks(bad):
			c.replace(l, "the server is not healthy", func(Candidate) bool { return true })
		case c.cfg.ReturnAfter > 0 && !time.Now().Before(returnAt):
			c.replace(l, "the preferred server is healthy", func(o Candidate) bool { return c.preferred(o, l.Candidate) })
			returnAt = time.Now().Add(jittered(c.cfg.ReturnAfter))
		}
	}
}

// looks reports whether another server is looked for after so many bad checks: after 2, 4, 8 and each 16.
func looks(bad int) bool {
	return bad >= maxBad && (bad%maxLook == 0 || bad < maxLook && bad&(bad-1) == 0)
}

// Several reports whether the last selection had more than one candidate.
func (c *Conn) Several() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.several
}

// preferred reports whether the client prefers x to y: by the endpoint, or without an order of endpoints by its own.
func (c *Conn) preferred(x, y Candidate) bool {
	if c.cfg.Listed {
		return x.place.endpoint < y.place.endpoint
	}
	return x.place.compare(y.place) < 0
}

// replace moves from l to the first other candidate that suits and is SERVING, if there is one.
func (c *Conn) replace(l *link, reason string, suits func(Candidate) bool) {
	candidates, _ := c.book.candidates(c.ctx)
	if len(candidates) > 1 {
		c.mu.Lock()
		c.several = true
		c.mu.Unlock()
	}
	candidates = slices.DeleteFunc(candidates, func(o Candidate) bool {
		return o.Target == l.Target || !suits(o) || !c.suspectSince(o).IsZero()
	})
	if found, _, _ := c.first(c.ctx, candidates, serving); found != nil {
		c.move(l, found, reason)
	}
}
