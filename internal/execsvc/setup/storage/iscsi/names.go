package iscsi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// lookUpLimit bounds the time in which all host names of a volume's portals are looked up.
const lookUpLimit = 5 * time.Second

// isAddress reports whether a portal is named by its address, and not by a host name.
func isAddress(portal string) bool {
	_, err := netip.ParseAddrPort(portal)
	return err == nil
}

// recorded fills in the addresses of the portals that have one in the records of this boot, and of those that are named by one. An
// earlier podexecd has given a host name to open-iscsi: then that is the session's name.
func (b *Backend) recorded(k record.Key, d *disk) {
	d.addresses = make([]string, len(d.Portals))
	used := b.records.of(k.Handle)
	for i, p := range d.Portals {
		if isAddress(p) {
			d.set(i, p)
			continue
		}
		for j := range used {
			if used[j].Boot == b.cfg.Boot && used[j].portal(used[j].user(k.Handle)) == p {
				d.set(i, used[j].Session.Portal)
			}
		}
	}
}

// recordedToo adds the recorded sessions of a volume: some may be of another boot, with the address that a portal had then.
func (b *Backend) recordedToo(k record.Key, sessions []initiator.Session) []initiator.Session {
	for _, rec := range b.records.of(k.Handle) {
		if s := key(rec.Session); !slices.Contains(sessions, s) {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// locked are the locks of a volume's attachment, and of its end.
func (b *Backend) locked(k record.Key, d *disk) []initiator.Session {
	return b.recordedToo(k, d.locked())
}

// set sets a portal's address, unless another portal has it: a volume has one session to each.
func (d *disk) set(i int, address string) {
	if !slices.Contains(d.addresses, address) {
		d.addresses[i] = address
	}
}

// resolve fills in the addresses of the portals. Those that are recorded stay: the sessions have them. open-iscsi gets addresses only, as it
// compares a name's present address with those of all sessions, in each call.
func (b *Backend) resolve(ctx context.Context, k record.Key, d *disk) error {
	b.recorded(k, d)
	found, errs := make([]string, len(d.Portals)), make([]error, len(d.Portals))
	ctx, cancel := context.WithTimeoutCause(ctx, lookUpLimit, fmt.Errorf("it isn't found within %s", lookUpLimit))
	defer cancel()
	var looking sync.WaitGroup
	for i, p := range d.Portals {
		if isAddress(p) || d.addresses[i] != "" {
			continue
		}
		looking.Go(func() { found[i], errs[i] = b.lookUp(ctx, p) })
	}
	looking.Wait()
	for i, address := range found {
		if address != "" {
			d.set(i, address)
		}
		if errs[i] != nil {
			b.cfg.Log.Warn("a path of an iSCSI disk can't be used", "volume", b.VolumeName(k), "error", errs[i])
		}
	}
	if len(d.sessions()) == 0 {
		return notSent(errors.Join(errs...))
	}
	return nil
}

// lookUp returns the first usable address of a portal's host name, with the port.
func (b *Backend) lookUp(ctx context.Context, portal string) (string, error) {
	host, port, err := net.SplitHostPort(portal)
	if err != nil {
		return "", err
	}
	all, err := b.cfg.lookUp(ctx, "ip", host)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("look up the iSCSI portal %s: %w", portal, err)
	}
	for _, address := range all {
		if address = address.Unmap(); address.IsValid() && !address.IsUnspecified() && !address.IsMulticast() && address.Zone() == "" {
			return net.JoinHostPort(address.String(), port), nil
		}
	}
	return "", fmt.Errorf("look up the iSCSI portal %s: it has no usable address", portal)
}

// dropNamed ends the volume's use of sessions with host names that there aren't any more: an earlier podexecd made them. The next ones have
// addresses. The caller has their locks.
func (b *Backend) dropNamed(ctx context.Context, k record.Key, d *disk, live []initiator.Session) error {
	for _, s := range d.sessions() {
		if isAddress(s.Portal) || slices.ContainsFunc(live, func(l initiator.Session) bool { return key(l) == s }) {
			continue
		}
		err := b.leave(ctx, k, s)
		return notSent(errors.Join(fmt.Errorf("%v isn't there any more, and the next session gets an address", s), err))
	}
	return nil
}
