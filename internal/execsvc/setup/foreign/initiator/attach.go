package initiator

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// Look looks at sessions, and at the records of open-iscsi for them.
type Look struct {
	Sessions []Session `json:"sessions"`
	// Iface is one that is to be made; empty: none.
	Iface string `json:"iface,omitempty"`
}

// Seen is what there is.
type Seen struct {
	// Live are those of the sessions that exist, with their SIDs.
	Live []Session `json:"live,omitempty"`
	// Aliases are sessions to the portals of those that don't exist.
	Aliases []Alias `json:"aliases,omitempty"`
	// Nodes are the records that one of the sessions' would replace, or be taken for: some may have another iface.
	Nodes []Node `json:"nodes,omitempty"`
	// Iface is set if there is the iface.
	Iface bool `json:"iface,omitempty"`
}

func (l *Look) do(h *Host) (*Seen, error) {
	seen := &Seen{}
	for _, s := range l.Sessions {
		found, err := h.find(s)
		if err != nil {
			return nil, err
		}
		if found != nil {
			seen.Live = append(seen.Live, found.Session)
		} else {
			aliases, err := h.aliases(s)
			if err != nil {
				return nil, err
			}
			seen.Aliases = append(seen.Aliases, aliases...)
		}
		nodes, err := h.nodes(s)
		if err != nil {
			return nil, err
		}
		seen.Nodes = append(seen.Nodes, nodes...)
	}
	if l.Iface == "" {
		return seen, nil
	}
	var err error
	seen.Iface, err = h.hasIface(l.Iface)
	return seen, err
}

// Attach logs in to the sessions that don't exist, and finds the disk. The caller has recorded that all of them are its own.
type Attach struct {
	Sessions []Session `json:"sessions"`
	LUN      int       `json:"lun"`
	// Clone is set if the iface of the sessions is made for the volume.
	Clone *Clone `json:"clone,omitempty"`
	// CHAP is set if the sessions are authenticated.
	CHAP CHAP `json:"chap,omitempty"`
	// Budget is how long it may take to try the sessions.
	Budget time.Duration `json:"budget"`
	// Wait is how long a multipath device may take to appear.
	Wait time.Duration `json:"wait,omitempty"`
}

// Attached is a disk.
type Attached struct {
	// Sessions are those that there are now, with their SIDs.
	Sessions []Session `json:"sessions"`
	// Name is the disk's in /dev, and Number its major:minor. It is a multipath device if there is one.
	Name   string `json:"name"`
	Number string `json:"number"`
	// WWID is the identity of the disk; empty: it has none.
	WWID string `json:"wwid,omitempty"`
	// Failed says why sessions weren't made.
	Failed []string `json:"failed,omitempty"`
	// Unsettled are those to which a login may still go on, as iscsiadm was killed. With some, Error is that of the job, if it has failed.
	Unsettled []Session `json:"unsettled,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// loggedIn is the state of a session that can be used.
const loggedIn = "LOGGED_IN"

// attempts is upstream's number of attempts to have all paths, if there are several.
const attempts = 2

func (a *Attach) do(h *Host) (*Attached, error) {
	at := &Attached{}
	err := a.attach(h, at)
	if err != nil && len(at.Unsettled) > 0 {
		at.Error, err = err.Error(), nil // An error would be sent without the sessions.
	}
	return at, err
}

func (a *Attach) attach(h *Host, at *Attached) error {
	end := time.Now().Add(a.Budget)
	if err := a.makeIface(h); err != nil {
		return err
	}
	found := map[string]path{}
	failed := map[string]error{}
	for n := 0; n < attempts && len(found) < len(a.Sessions); n++ {
		for _, s := range a.Sessions {
			if _, has := found[s.Portal]; has {
				continue
			}
			if time.Now().After(end) {
				failed[s.Portal] = errors.Join(failed[s.Portal], errors.New("there was no time left for another attempt"))
				break
			}
			l, p, err := a.try(h, s)
			if _, killed := errors.AsType[*unsettledError](err); killed && !slices.Contains(at.Unsettled, key(s)) {
				at.Unsettled = append(at.Unsettled, key(s))
			}
			if l != nil && !slices.Contains(at.Sessions, l.Session) {
				at.Sessions = append(at.Sessions, l.Session)
			}
			if failed[s.Portal] = err; err == nil {
				found[s.Portal] = *p
			}
		}
		if len(found) == 0 {
			break // It is tried again by the caller.
		}
	}
	var paths []path
	for _, s := range a.Sessions {
		if p, has := found[s.Portal]; has {
			paths = append(paths, p)
		}
		if err := failed[s.Portal]; err != nil {
			at.Failed = append(at.Failed, fmt.Sprintf("portal %s: %.600v", s.Portal, err))
		}
	}
	if len(paths) == 0 {
		return fmt.Errorf("failed to get any path for iscsi disk: %s", joined(at.Failed))
	}
	return a.choose(h, paths, at)
}

func joined(all []string) string {
	const most = 3
	text := ""
	for i, s := range all {
		if i == most {
			return text + fmt.Sprintf("; and %d more", len(all)-most)
		}
		if i > 0 {
			text += "; "
		}
		text += s
	}
	return text
}

// try logs in to a session, unless it exists, and finds the disk.
func (a *Attach) try(h *Host, s Session) (*live, *path, error) {
	l, err := h.own(s)
	if err == nil && l == nil {
		l, err = a.login(h, s)
	}
	if err != nil {
		return nil, nil, err
	}
	if state, err := attribute(h.sys("class", "iscsi_session", l.SID, "state")); err != nil || state != loggedIn {
		return l, nil, errors.Join(err, fmt.Errorf("%s to %v is in the state %.40s: the portal doesn't answer", l.SID, key(l.Session), state))
	}
	p, err := h.scan(l, a.LUN)
	return l, p, err
}

// makeIface makes the iface of the volume, unless a session has it.
func (a *Attach) makeIface(h *Host) error {
	if a.Clone == nil || len(a.Sessions) == 0 {
		return nil
	}
	name := a.Sessions[0].Iface
	all, err := h.sessions(a.Sessions[0].Target)
	if err != nil || slices.ContainsFunc(all, func(l live) bool { return l.Iface == name }) {
		return err
	}
	return h.makeIface(name, a.Clone)
}

func (a *Attach) login(h *Host, s Session) (*live, error) {
	// One with another SID is gone, as there is none now.
	s.SID = ""
	if err := h.makeNode(s, a.CHAP); err != nil {
		return nil, err
	}
	if _, err := h.iscsiadm(loginLimit, []int{exitExists}, append(s.node(), "--login")...); err != nil {
		if _, ended := errors.AsType[*exitError](err); !ended && !errors.Is(err, exec.ErrNotFound) {
			err = &unsettledError{err}
		}
		return nil, err
	}
	l, err := h.find(s)
	if err == nil && l == nil {
		err = fmt.Errorf("iscsiadm logged in to %v, and there is no such session", s)
	}
	return l, err
}

// unsettledError is the error of a login whose iscsiadm was killed: iscsid may go on with it.
type unsettledError struct{ error }

func (u *unsettledError) Unwrap() error { return u.error }

// choose fills in the disk of the paths.
func (a *Attach) choose(h *Host, paths []path, at *Attached) error {
	at.WWID = paths[0].wwid()
	for _, p := range paths[1:] {
		if p.wwid() != at.WWID {
			return fmt.Errorf("the portals have different disks with the logical unit number %d: %s and %s", a.LUN, paths[0].name, p.name)
		}
	}
	target := a.Sessions[0].Target
	twins, err := h.twins(target, paths)
	if err != nil {
		return err
	}
	for _, twin := range twins {
		f, err := h.free(twin.name, twin.number)
		if err != nil {
			return fmt.Errorf("%s is the same disk as %s, of another session: %w", paths[0].name, twin.name, err)
		}
		_ = f.Close()
	}
	if at.WWID != "" && !isGlobal(at.WWID) {
		at.WWID = target + " " + at.WWID
	}
	name := ""
	err = poll(a.Wait, func() (bool, error) {
		for _, p := range paths {
			if name, err = h.multipath(&p); err != nil || name != "" {
				return true, err
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if at.Name, at.Number = paths[0].name, paths[0].number; name == "" {
		return nil
	}
	if err := h.checkMultipath(name, paths); err != nil {
		return err
	}
	at.Name = name
	at.Number, err = attribute(h.sys("block", name, "dev"))
	return err
}
