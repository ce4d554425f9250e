package initiator

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxSettings bounds the settings of an iface.
	maxSettings = 128
	// ifaceName is a setting that a new iface has from its name.
	ifaceName      = "iface.iscsi_ifacename"
	initiatorName  = "iface.initiatorname"
	emptySetting   = "<empty>"
	authMethod     = "node.session.auth.authmethod"
	nodeStartup    = "node.startup"
	manual         = "manual"
	optionalOption = "node.session.scan"
	// groupTag comes first in a record, and noTag is its value in one that was made without a discovery.
	groupTag, noTag = "node.tpgt", "-1"
)

var setting = regexp.MustCompile(`^iface\.[a-z0-9_.]{1,64}$`)

// CHAP is what a session is authenticated with, by the settings of open-iscsi.
type CHAP map[string]string

// ChapKeys are the settings of CHAP, and the keys of a Secret.
var ChapKeys = []string{
	"node.session.auth.username", "node.session.auth.password", "node.session.auth.username_in", "node.session.auth.password_in",
}

// node are the arguments of iscsiadm that name the record of a session.
func (s Session) node() []string {
	return []string{"-m", "node", "-T", s.Target, "-p", s.Portal, "-I", s.Iface}
}

func iface(name string) []string { return []string{"-m", "iface", "-I", name} }

// Node is a record of open-iscsi.
type Node struct {
	// Session is the one that it is for. It has no SID.
	Session
	// Tagged is set if it has the tag of a portal group, which a discovery gives to it. podexecd makes none with a tag.
	Tagged bool `json:"tagged,omitempty"`
	// Marked is set if it has the settings that podexecd gives to a record. It isn't set before a record is finished, and not if another
	// program has made a new one in its place, or has changed those.
	Marked bool `json:"marked,omitempty"`
}

// marks are the settings of podexecd's records: there is no login without it, and no retry.
var marks = [][2]string{{nodeStartup, manual}, {"node.conn[0].startup", manual}, {"node.session.initial_login_retry_max", "1"}}

// nodes returns the records of open-iscsi that a record of this session would replace, or be taken for. A record without a tag of a
// portal group has one file for all ifaces.
func (h *Host) nodes(s Session) ([]Node, error) {
	// An iface that there isn't would be an error.
	r, err := h.iscsiadm(callLimit, []int{exitNoObjects}, "-m", "node", "-T", s.Target, "-p", s.Portal)
	if err != nil || r.code != 0 {
		return nil, err
	}
	if len(r.out) >= maxOutput {
		return nil, fmt.Errorf("open-iscsi has too many records of target %s at portal %s", s.Target, s.Portal)
	}
	var all []Node
	marked := 0
	for line := range strings.Lines(r.out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if name == groupTag {
			all = append(all, Node{Session: Session{Target: s.Target, Portal: s.Portal}, Tagged: value != noTag})
			marked = 0
		}
		if len(all) == 0 {
			continue
		}
		last := &all[len(all)-1]
		if slices.Contains(marks, [2]string{name, value}) {
			marked++
			last.Marked = marked == len(marks) && !last.Tagged
		}
		if name == ifaceName {
			last.Iface = value
		}
	}
	return slices.DeleteFunc(all, func(n Node) bool { return n.Tagged && n.Iface != s.Iface }), nil
}

// deleteNode deletes the caller's record of a session. It is no error if there is none. If a discovery has put a record of its own in
// its place, or beside it, which no call of iscsiadm tells from it, all stay, and kept says so. So does one that another program has put
// in its place. begun is set if the caller may not have finished its own.
func (h *Host) deleteNode(s Session, begun bool) (kept string, err error) {
	all, err := h.nodes(s)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(n Node) bool { return n.Iface != s.Iface })
	if slices.ContainsFunc(all, func(n Node) bool { return n.Tagged }) {
		return fmt.Sprintf("a discovery has made a record of open-iscsi for %v: all records of it stay. If they aren't needed: iscsiadm %s -o delete",
			key(s), strings.Join(s.node(), " ")), nil
	}
	if len(all) == 0 {
		return "", nil
	}
	if !begun && slices.ContainsFunc(all, func(n Node) bool { return !n.Marked }) {
		return fmt.Sprintf("the record of open-iscsi for %v isn't as podexecd made it: it stays. If it isn't needed: iscsiadm %s -o delete",
			key(s), strings.Join(s.node(), " ")), nil
	}
	_, err = h.iscsiadm(callLimit, []int{exitNoObjects}, append(s.node(), "-o", "delete")...)
	if err != nil && h.lacksIface(s.Iface) {
		err = nil
	}
	return "", err
}

// lacksIface reports whether there isn't the iface, which makes the calls that name it fail with several codes.
func (h *Host) lacksIface(name string) bool {
	has, err := h.hasIface(name)
	return err == nil && !has
}

// makeNode makes the record of a session, in place of an earlier one. It is never logged in to by itself, and a login finds no logical unit by itself.
func (h *Host) makeNode(s Session, chap CHAP) error {
	switch kept, err := h.deleteNode(s, true); {
	case err != nil:
		return err
	case kept != "":
		return errors.New(kept)
	}
	err := h.newNode(s, chap)
	if err != nil {
		// No other call would take it for podexecd's.
		if _, left := h.deleteNode(s, true); left != nil {
			err = errors.Join(err, &unfinishedError{left})
		}
	}
	return err
}

// unfinishedError is the error of a record that couldn't be finished, and couldn't be deleted.
type unfinishedError struct{ error }

func (u *unfinishedError) Unwrap() error { return u.error }

func (h *Host) newNode(s Session, chap CHAP) error {
	if _, err := h.iscsiadm(callLimit, nil, append(s.node(), "-o", "new")...); err != nil {
		return err
	}
	for _, set := range append(slices.Clone(marks), [2]string{optionalOption, manual}) {
		_, err := h.iscsiadm(callLimit, nil, append(s.node(), "-o", "update", "-n", set[0], "-v", set[1])...)
		if err != nil && set[0] != optionalOption {
			return err
		}
		// Old versions of open-iscsi always scan.
	}
	if chap == nil {
		return nil
	}
	if _, err := h.iscsiadm(callLimit, nil, append(s.node(), "-o", "update", "-n", authMethod, "-v", "CHAP")...); err != nil {
		return err
	}
	for _, key := range ChapKeys {
		if value := chap[key]; value != "" {
			if err := h.setSecret(s.node(), key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasIface reports whether open-iscsi has the iface.
func (h *Host) hasIface(name string) (bool, error) {
	r, err := h.iscsiadm(callLimit, []int{exitNoIface, exitNoObjects}, append(iface(name), "-o", "show")...)
	return err == nil && r.code == 0, err
}

// Clone is an iface that is made for a volume.
type Clone struct {
	// From is the iface with the other settings, and Initiator the initiator's name.
	From      string `json:"from"`
	Initiator string `json:"initiator"`
}

// makeIface makes the caller's iface, or gives it its settings again.
func (h *Host) makeIface(name string, c *Clone) error {
	r, err := h.iscsiadm(callLimit, nil, append(iface(c.From), "-o", "show")...)
	if err != nil {
		return err
	}
	settings, err := parseIface(r.out)
	if err != nil {
		return fmt.Errorf("read the settings of iface %s: %w", c.From, err)
	}
	settings[initiatorName] = c.Initiator
	if _, err := h.iscsiadm(callLimit, []int{exitExists}, append(iface(name), "-o", "new")...); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if _, err := h.iscsiadm(callLimit, nil, append(iface(name), "-o", "update", "-n", key, "-v", settings[key])...); err != nil {
			return err
		}
	}
	return nil
}

// parseIface returns the settings of an iface, as iscsiadm shows them.
func parseIface(out string) (map[string]string, error) {
	settings := map[string]string{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#") || len(fields) == 3 && fields[2] == emptySetting:
		case len(fields) != 3 || fields[1] != "=" || !setting.MatchString(fields[0]):
			return nil, fmt.Errorf("the line %.100q isn't a setting", strings.TrimSpace(line))
		case len(settings) == maxSettings:
			return nil, fmt.Errorf("it has more than %d settings", maxSettings)
		case fields[0] != ifaceName:
			settings[fields[0]] = fields[2]
		}
	}
	return settings, nil
}

// deleteIface deletes the caller's iface. It is no error if there is none. iscsiadm would delete all records of it too: a discovery
// makes one for each iface and each target of a portal. With some, the iface stays, and kept says so.
func (h *Host) deleteIface(name string) (kept string, err error) {
	r, err := h.iscsiadm(callLimit, []int{exitNoObjects}, "-m", "node", "-I", name)
	if err == nil && r.code == 0 {
		return fmt.Sprintf("open-iscsi has records of the iface %s that podexecd didn't make: it stays. If they aren't needed: iscsiadm -m iface -I %s "+
			"-o delete", name, name), nil
	}
	if err == nil {
		_, err = h.iscsiadm(callLimit, []int{exitNoObjects, exitNoSession}, append(iface(name), "-o", "delete")...)
	}
	if err != nil && h.lacksIface(name) {
		err = nil
	}
	return "", err
}
