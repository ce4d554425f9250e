package initiator

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSessions bounds the sessions of a machine that are looked at.
const maxSessions = 4096

// Session names a session of this machine.
type Session struct {
	// Target is the target's name, Portal its host:port, and Iface the name of the initiator's iface.
	Target string `json:"target"`
	Portal string `json:"portal"`
	Iface  string `json:"iface"`
	// SID is the kernel's name of the session, "session1". Empty: it isn't known.
	SID string `json:"sid,omitempty"`
}

func (s Session) String() string {
	return fmt.Sprintf("target %s at portal %s (iface %s)", s.Target, s.Portal, s.Iface)
}

func key(s Session) Session {
	s.SID = ""
	return s
}

// same reports whether both name the same session, as far as their SIDs are known.
func (s Session) same(of Session) bool {
	return s.Target == of.Target && s.Portal == of.Portal && s.Iface == of.Iface && (s.SID == "" || of.SID == "" || s.SID == of.SID)
}

// live is a session of this machine, as sysfs has it.
type live struct {
	Session
	// persistent are the portals of its connections, as they were named at the login, and current those of their peers: another one after
	// a redirection by the target. dir is its directory in sysfs.
	persistent, current []string
	dir                 string
}

// sessionPrefix is before the number in a SID.
const sessionPrefix = "session"

var sessionName = regexp.MustCompile(`^` + sessionPrefix + `\d+$`)

// sessions returns the sessions to a target.
func (h *Host) sessions(target string) ([]live, error) {
	all, err := names(h.sys("class", "iscsi_session"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("list the sessions of this machine: %w", err)
	case len(all) > maxSessions:
		return nil, fmt.Errorf("this machine has %d sessions, more than %d", len(all), maxSessions)
	}
	var found []live
	for _, name := range all {
		if !sessionName.MatchString(name) {
			continue
		}
		s, err := h.session(name, target)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It has just ended.
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", name, err)
		}
		if s != nil {
			found = append(found, *s)
		}
	}
	return found, nil
}

// session returns a session, if it is one to the target.
func (h *Host) session(name, target string) (*live, error) {
	at := h.sys("class", "iscsi_session", name)
	has, err := attribute(at, "targetname")
	if err != nil || has != target {
		return nil, err
	}
	iface, err := attribute(at, "ifacename")
	if err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(at, "device"))
	if err != nil {
		return nil, err
	}
	connections, err := names(dir)
	if err != nil {
		return nil, err
	}
	s := &live{Session: Session{Target: target, Iface: iface, SID: name}, dir: dir}
	for _, c := range connections {
		if !strings.HasPrefix(c, "connection") {
			continue
		}
		of := filepath.Join(dir, c, "iscsi_connection", c)
		persistent, err := portalOf(of, "persistent_")
		if err != nil {
			return nil, err
		}
		s.persistent = append(s.persistent, persistent)
		// A lost connection has no peer.
		if current, err := portalOf(of, ""); err == nil {
			s.current = append(s.current, current)
		}
	}
	return s, nil
}

// portalOf returns a portal of a connection.
func portalOf(connection, prefix string) (string, error) {
	address, addressErr := attribute(connection, prefix+"address")
	port, portErr := attribute(connection, prefix+"port")
	return canonical(net.JoinHostPort(strings.Trim(address, "[]"), port)), errors.Join(addressErr, portErr)
}

// canonical returns a portal with one way of writing its address.
func canonical(portal string) string {
	if at, err := netip.ParseAddrPort(portal); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()
	}
	return strings.ToLower(portal)
}

// find returns the session, or nil. It must be the only one of its name, or the one with its SID. Its portal is the one that was named
// at the login: a target may redirect a session to any address.
func (h *Host) find(s Session) (*live, error) {
	all, err := h.sessions(s.Target)
	if err != nil {
		return nil, err
	}
	portal := canonical(s.Portal)
	all = slices.DeleteFunc(all, func(l live) bool { return l.Iface != s.Iface || !slices.Contains(l.persistent, portal) })
	if n := slices.IndexFunc(all, func(l live) bool { return l.SID == s.SID }); n >= 0 {
		all = all[n : n+1]
	}
	if len(all) > 1 {
		return nil, fmt.Errorf("there are %d sessions to %v: end those that podexecd didn't make", len(all), s)
	}
	if len(all) == 0 {
		return nil, nil
	}
	found := all[0]
	found.Portal = s.Portal
	return &found, nil
}

// own returns the caller's session, or nil if there is none. One with another SID isn't the caller's, and is an error.
func (h *Host) own(s Session) (*live, error) {
	found, err := h.find(s)
	if err == nil && found != nil && !found.same(s) {
		return nil, &NotOwnError{Session: s, Has: found.SID}
	}
	return found, err
}

// NotOwnError is the error of a session that the caller didn't make.
type NotOwnError struct {
	Session
	// Has is its SID.
	Has string
}

func (n *NotOwnError) Error() string {
	made := "podexecd made none"
	if n.SID != "" {
		made = "podexecd made " + n.SID
	}
	return fmt.Sprintf("%s to %v is left as it is: %s", n.Has, n.Session, made)
}
