package initiator

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// resolveLimit bounds the time in which a portal's host name is resolved, and maxAddresses the addresses of it that count.
	resolveLimit = 5 * time.Second
	maxAddresses = 16
)

// Alias is a session to a portal of the caller's that was named otherwise at its login. open-iscsi takes both for one, and makes no other.
type Alias struct {
	// Session has the portal's name at the login, and its SID.
	Session
	// Named is the caller's portal.
	Named string `json:"named"`
}

// isAddress reports whether a portal is named by its address, and not by a host name.
func isAddress(portal string) bool {
	_, err := netip.ParseAddrPort(portal)
	return err == nil
}

// aliases returns the sessions that open-iscsi would take for this one.
func (h *Host) aliases(s Session) ([]Alias, error) {
	all, err := h.sessions(s.Target)
	if err != nil {
		return nil, err
	}
	portals := addresses(canonical(s.Portal))
	var found []Alias
	for _, l := range all {
		if l.Iface != s.Iface || len(l.persistent) == 0 {
			continue
		}
		// The address of a session's host name is that of its connection. One that was named by its address may have been redirected.
		has := l.persistent
		if !slices.ContainsFunc(l.persistent, isAddress) {
			has = l.current
		}
		if slices.ContainsFunc(has, func(p string) bool { return slices.Contains(portals, p) }) {
			found = append(found, Alias{Session: Session{Target: l.Target, Portal: l.persistent[0], Iface: l.Iface, SID: l.SID}, Named: s.Portal})
		}
	}
	return found, nil
}

// addresses returns a portal's addresses, with its port. There are none if its name can't be resolved: a login would fail too.
func addresses(portal string) []string {
	if isAddress(portal) {
		return []string{portal}
	}
	host, port, err := net.SplitHostPort(portal)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveLimit)
	defer cancel()
	resolved, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	var all []string
	for _, address := range resolved[:min(len(resolved), maxAddresses)] {
		all = append(all, canonical(net.JoinHostPort(address.String(), port)))
	}
	return all
}
