package initiator

import (
	"errors"
	"fmt"
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

// Attach logs in to the sessions that don't exist, and finds the disk. The caller has recorded that it makes them.
type Attach struct {
	// Sessions have the SIDs of those that exist.
	Sessions []Session `json:"sessions"`
	// Begun are those that an earlier login, which had no answer, may make.
	Begun []Session `json:"begun,omitempty"`
	LUN   int       `json:"lun"`
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
	// Sessions are those that there are now, with their SIDs. There is none of the others, unless they are Unsettled.
	Sessions []Session `json:"sessions"`
	// Name is the disk's in /dev, and Number its major:minor. It is a multipath device if there is one.
	Name   string `json:"name"`
	Number string `json:"number"`
	// WWID is the identity of the disk; empty: it has none.
	WWID string `json:"wwid,omitempty"`
	// Failed says why sessions weren't made.
	Failed []string `json:"failed,omitempty"`
	// Unsettled are those to which a login may still go on, as iscsiadm was killed, or iscsid didn't answer it.
	Unsettled []Session `json:"unsettled,omitempty"`
	// Error is that of the job, if it has failed.
	Error string `json:"error,omitempty"`
}

// loggedIn is the state of a session that can be used.
const loggedIn = "LOGGED_IN"

// attempts is upstream's number of attempts to have all paths, if there are several.
const attempts = 2

func (a *Attach) do(h *Host) *Attached {
	at := &Attached{}
	if err := a.attach(h, at); err != nil {
		at.Error = err.Error() // An error would be sent without the sessions.
	}
	return at
}

// login is a session that is tried.
type login struct {
	// Session has its SID once it is known to exist.
	Session
	// pending is set while a login may make it.
	pending bool
	path    *path
	err     error
}

func (a *Attach) attach(h *Host, at *Attached) error {
	end := time.Now().Add(a.Budget)
	all := make([]login, len(a.Sessions))
	for i, s := range a.Sessions {
		all[i] = login{Session: s, pending: slices.Contains(a.Begun, key(s))}
	}
	err := a.makeIface(h)
	if err == nil {
		a.tryAll(h, all, end)
	}
	var paths []path
	for i := range all {
		l := &all[i]
		if l.SID != "" {
			at.Sessions = append(at.Sessions, l.Session)
		}
		if l.pending {
			at.Unsettled = append(at.Unsettled, key(l.Session))
		}
		if l.path != nil {
			paths = append(paths, *l.path)
		}
		if l.err != nil {
			at.Failed = append(at.Failed, fmt.Sprintf("portal %s: %.600v", l.Portal, l.err))
		}
	}
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("failed to get any path for iscsi disk: %s", joined(at.Failed))
	}
	return a.choose(h, paths, at)
}

// tryAll tries the sessions: a second time those that have no disk, if others have.
func (a *Attach) tryAll(h *Host, all []login, end time.Time) {
	found := 0
	for n := 0; n < attempts && found < len(all); n++ {
		for i := range all {
			l := &all[i]
			if l.path != nil {
				continue
			}
			if time.Now().After(end) {
				l.err = errors.Join(l.err, errors.New("there was no time left for another attempt"))
				break
			}
			if l.path, l.err = a.try(h, l); l.err == nil {
				found++
			}
		}
		if found == 0 {
			return // It is tried again by the caller.
		}
	}
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
