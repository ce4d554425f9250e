package iscsi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
)

// ConflictError is the error of a volume whose disk or session another volume uses in another way.
type ConflictError struct {
	// Session is the session, and Why says what differs.
	Session initiator.Session
	Why     string
}

func (c *ConflictError) Error() string {
	return fmt.Sprintf("%v is in use: %s; the pod waits until the pods that use it are gone", c.Session, c.Why)
}

// NotOwnError is the error of a session, a record or an iface of open-iscsi that podexecd didn't make.
type NotOwnError struct{ What, Remedy string }

func (n *NotOwnError) Error() string {
	return fmt.Sprintf("podexecd didn't make %s, so it neither uses nor changes it: %s", n.What, n.Remedy)
}

// conflict returns an error if a volume can't be attached beside those of the records. It is decided by what is recorded only.
func conflict(all []session, boot, handle string, d *disk) error {
	for i := range all {
		for _, u := range all[i].Users {
			// They would have one mount point, also if the address of its name has changed, or the first portal has no session.
			if all[i].Boot == boot && u.Handle != handle && u.LUN == d.LUN && all[i].Target == d.Target && all[i].Iface == d.Iface &&
				all[i].first(&u) == d.Portals[0] {
				return &ConflictError{all[i].Session, otherUse(&u)}
			}
		}
	}
	for _, s := range d.sessions() {
		for i := range all {
			if err := all[i].conflicts(boot, handle, s, d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *session) conflicts(boot, handle string, wanted initiator.Session, d *disk) error {
	if s.Boot != boot {
		return nil // There is no such session any more.
	}
	other := slices.ContainsFunc(s.Users, func(u user) bool { return u.Handle != handle })
	same := key(s.Session) == wanted
	switch {
	case same && other && s.Auth != d.auth():
		return &ConflictError{wanted, "it is authenticated with another Secret, or only one of both has one (chapAuthSession, secretRef)"}
	case s.Iface == wanted.Iface && other && !equal(s.Clone, d.Clone):
		return &ConflictError{s.Session, "the iface has another initiatorName"}
	}
	for _, u := range s.Users {
		if u.Handle != handle && u.LUN == d.LUN && s.Target == wanted.Target && s.Portal == wanted.Portal {
			return &ConflictError{s.Session, otherUse(&u)}
		}
	}
	inUse := len(s.Users) > 0 || s.isMade(boot)
	if s.Target == wanted.Target && s.Portal == wanted.Portal && s.Iface != wanted.Iface && inUse {
		return &ConflictError{s.Session, "open-iscsi has one record of a target at a portal, for one iface at a time (iscsiInterface, initiatorName)"}
	}
	return nil
}

func otherUse(u *user) string {
	return fmt.Sprintf("logical unit %d is used with another fsType, volumeMode, iface, list of portals, other mount options, or another readOnly, "+
		"or with its portal's other name, by the volume %s", u.LUN, volumeName(u.Handle))
}

// shown is a target's text, in an error.
func shown(text string) string { return fmt.Sprintf("%.64q", text) }

func equal(a, b *initiator.Clone) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// twin returns an error if another volume uses the disk with this identity.
func twin(all []session, boot, handle, wwid string) error {
	if wwid == "" {
		return nil
	}
	for i := range all {
		for _, u := range all[i].Users {
			if all[i].Boot == boot && u.Handle != handle && u.WWID == wwid {
				return &ConflictError{all[i].Session, fmt.Sprintf("its logical unit %d, of the volume %s, says that it is the same disk, %s",
					u.LUN, volumeName(u.Handle), shown(wwid))}
			}
		}
	}
	return nil
}

// checkOwn returns an error if there is something of the volume's that isn't recorded. own are podexecd's records.
func checkOwn(seen *initiator.Seen, own map[initiator.Session]session, boot string, d *disk, ifaceOwn bool) error {
	for _, live := range seen.Live {
		rec, has := own[key(live)]
		if has && rec.is(boot, live) && rec.Auth != d.auth() {
			return &ConflictError{key(live), "it was made with another Secret, or only one of both has one (chapAuthSession, secretRef), " +
				"and something on this machine uses it"}
		}
		if !has || !rec.is(boot, live) {
			err := notOwnSession(live)
			if has && rec.Boot != boot && rec.Begun {
				err.What += ", or the boot has made it by a record of open-iscsi that podexecd hadn't finished"
				err.Remedy += fmt.Sprintf("; if the record isn't needed, delete it, iscsiadm %s -o delete", nodeArgs(live))
			}
			return err
		}
	}
	for _, a := range seen.Aliases {
		if slices.Contains(d.sessions(), key(a.Session)) {
			continue // The volume names a portal twice, and has it once.
		}
		rec, has := own[key(a.Session)]
		if !has || !rec.is(boot, a.Session) {
			return notOwnSession(a.Session)
		}
		why := fmt.Sprintf("the portal %s is the same under another name", a.Named)
		if len(rec.Users) > 0 {
			why += ", and the volume " + volumeName(rec.Users[0].Handle) + " uses it"
		}
		return &ConflictError{key(a.Session), why}
	}
	for _, node := range seen.Nodes {
		rec, has := own[key(node.Session)]
		if !node.Marked && !(rec.Begun && rec.Boot == boot) {
			// Another program made it, beside podexecd's record or in its place. The session that there is doesn't need it.
			has = slices.ContainsFunc(seen.Live, func(live initiator.Session) bool { return key(live) == key(node.Session) })
		}
		if !has {
			return &NotOwnError{
				fmt.Sprintf("the record of open-iscsi for %v", key(node.Session)),
				fmt.Sprintf("if it isn't needed, delete it, iscsiadm %s -o delete, or give the volume another iface", nodeArgs(node.Session)),
			}
		}
	}
	if d.Clone != nil && seen.Iface && !ifaceOwn {
		return &NotOwnError{fmt.Sprintf("the iface %s of open-iscsi", d.Iface),
			fmt.Sprintf("if it isn't needed, delete it: iscsiadm -m iface -I %s -o delete", d.Iface)}
	}
	return nil
}

// is reports whether a session that exists is that of the record.
func (s *session) is(boot string, live initiator.Session) bool {
	return s.Boot == boot && (s.SID == live.SID || s.SID == "" && s.Begun)
}

// isMade reports whether the session may exist, in this boot.
func (s *session) isMade(boot string) bool { return s.Boot == boot && (s.SID != "" || s.Begun) }

func notOwnSession(live initiator.Session) *NotOwnError {
	return &NotOwnError{
		fmt.Sprintf("the session %s to %v", live.SID, key(live)),
		fmt.Sprintf("log out of it, iscsiadm %s --logout, or give the volume another iface", nodeArgs(live)),
	}
}

func nodeArgs(s initiator.Session) string {
	return strings.Join([]string{"-m node -T", s.Target, "-p", s.Portal, "-I", s.Iface}, " ")
}

// The bounds of the values of a Secret: open-iscsi's of 256 bytes, with the final zero.
const maxSecret = 255

// chap returns the settings of a Secret. An error has none of its values.
func chap(data map[string]string) (initiator.CHAP, error) {
	c := initiator.CHAP{}
	for _, k := range initiator.ChapKeys {
		value := data[k]
		if len(value) > maxSecret || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("the value of %s in the Secret has more than %d bytes, or control characters such as a line's end", k, maxSecret)
		}
		if value != "" {
			c[k] = value
		}
	}
	if c["node.session.auth.username"] == "" || c["node.session.auth.password"] == "" {
		return nil, errors.New("the Secret has no node.session.auth.username or no node.session.auth.password")
	}
	return c, nil
}
