package iscsi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
)

// locks are the locks of sessions: one volume at a time attaches or detaches with a session. There are also locks of mount points
// and of ifaces.
type locks struct {
	mu   sync.Mutex
	held map[initiator.Session]*lock
}

type lock struct {
	// token has one value while no caller has the lock. users counts those that have it or wait.
	token chan struct{}
	users int
}

// mountPoint names the lock of where a disk is mounted. Volumes that differ in their options have one mount point.
func (d *disk) mountPoint() initiator.Session {
	return initiator.Session{Target: d.Target, Portal: d.Portals[0], Iface: d.Iface, SID: fmt.Sprintf("lun-%d", d.LUN)}
}

// ifaceLock names the lock of an iface that podexecd makes. Volumes of two targets may have it, and the last one deletes it.
func ifaceLock(iface string) initiator.Session { return initiator.Session{Iface: iface} }

// locked are the locks of a volume's attachment.
func (d *disk) locked() []initiator.Session {
	all := d.sessions()
	if !d.Device {
		all = append(all, d.mountPoint())
	}
	if d.Clone != nil {
		all = append(all, ifaceLock(d.Iface))
	}
	return all
}

// take returns when the caller has the sessions' locks. They are taken in one order, so that two callers don't wait for each other.
func (l *locks) take(ctx context.Context, sessions []initiator.Session) (release func(), err error) {
	sorted := slices.Clone(sessions)
	slices.SortFunc(sorted, compare)
	var taken []initiator.Session
	release = func() {
		for _, s := range taken {
			l.drop(s, true)
		}
	}
	for _, s := range sorted {
		select {
		case <-l.want(s):
			taken = append(taken, s)
		case <-ctx.Done():
			l.drop(s, false)
			release()
			return nil, fmt.Errorf("another volume's operation on %v hasn't ended: %w", s, context.Cause(ctx))
		}
	}
	return release, nil
}

func (l *locks) want(s initiator.Session) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[initiator.Session]*lock{}
	}
	k := l.held[s]
	if k == nil {
		k = &lock{token: make(chan struct{}, 1)}
		k.token <- struct{}{}
		l.held[s] = k
	}
	k.users++
	return k.token
}

func (l *locks) drop(s initiator.Session, had bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[s]
	if had {
		k.token <- struct{}{}
	}
	if k.users--; k.users == 0 {
		delete(l.held, s)
	}
}
