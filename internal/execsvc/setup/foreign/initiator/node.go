package initiator

import (
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

// nodes returns the sessions whose records of open-iscsi a record of this session would replace, or be taken for. A record without a
// tag of a portal group has one file for all ifaces.
func (h *Host) nodes(s Session) ([]Session, error) {
	// An iface that there isn't would be an error.
	r, err := h.iscsiadm(callLimit, []int{exitNoObjects}, "-m", "node", "-T", s.Target, "-p", s.Portal)
	if err != nil || r.code != 0 {
		return nil, err
	}
	if len(r.out) >= maxOutput {
		return nil, fmt.Errorf("open-iscsi has too many records of target %s at portal %s", s.Target, s.Portal)
	}
	var all []Session
	untagged := false
	for line := range strings.Lines(r.out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case name == groupTag:
			untagged = value == noTag
		case name == ifaceName && (untagged || value == s.Iface):
			all = append(all, Session{Target: s.Target, Portal: s.Portal, Iface: value})
		}
	}
	return all, nil
}

// deleteNode deletes the caller's record of a session. It is no error if there is none.
func (h *Host) deleteNode(s Session) error {
	_, err := h.iscsiadm(callLimit, []int{exitNoObjects}, append(s.node(), "-o", "delete")...)
	if err != nil && h.lacksIface(s.Iface) {
		return nil
	}
	return err
}

// lacksIface reports whether there isn't the iface, which makes the calls that name it fail with several codes.
func (h *Host) lacksIface(name string) bool {
	has, err := h.hasIface(name)
	return err == nil && !has
}

// makeNode makes the record of a session, in place of an earlier one. It is never logged in to by itself, and a login finds no logical unit by itself.
func (h *Host) makeNode(s Session, chap CHAP) error {
	if err := h.deleteNode(s); err != nil {
		return err
	}
	if _, err := h.iscsiadm(callLimit, nil, append(s.node(), "-o", "new")...); err != nil {
		return err
	}
	for _, set := range [][2]string{
		{"node.startup", manual}, {"node.conn[0].startup", manual}, {optionalOption, manual},
		// podexecd repeats a login itself.
		{"node.session.initial_login_retry_max", "1"},
	} {
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

// deleteIface deletes the caller's iface. It is no error if there is none.
func (h *Host) deleteIface(name string) error {
	_, err := h.iscsiadm(callLimit, []int{exitNoObjects, exitNoSession}, append(iface(name), "-o", "delete")...)
	if err != nil && h.lacksIface(name) {
		return nil
	}
	return err
}
