package initiator

import (
	"net/netip"
	"slices"
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

// aliases returns the sessions with host names that open-iscsi would take for this one, whose portal is an address. podexecd makes none, other
// programs may. The address of a host name is that of the session's connection.
func (h *Host) aliases(s Session) ([]Alias, error) {
	all, err := h.sessions(s.Target)
	if err != nil {
		return nil, err
	}
	portal := canonical(s.Portal)
	var found []Alias
	for _, l := range all {
		if l.Iface == s.Iface && len(l.persistent) > 0 && !slices.ContainsFunc(l.persistent, isAddress) && slices.Contains(l.current, portal) {
			found = append(found, Alias{Session: Session{Target: l.Target, Portal: l.persistent[0], Iface: l.Iface, SID: l.SID}, Named: s.Portal})
		}
	}
	return found, nil
}
