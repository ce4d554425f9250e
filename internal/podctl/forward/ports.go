package forward

import (
	"fmt"
	"strconv"
	"strings"
)

// Port is a local port, and the pod's port that it leads to.
type Port struct {
	// Local is the local port. Zero: a free one; -1: the number of the pod's.
	Local int
	// Number is the pod's port. Zero: the one with the Name.
	Number int32
	Name   string
}

// sameAsRemote is a Port.Local.
const sameAsRemote = -1

const maxPort = 1<<16 - 1

// Parse reads [LOCAL:]REMOTE, as kubectl takes it. An empty LOCAL is a free port.
func Parse(text string) (Port, error) {
	local, remote, split := strings.Cut(text, ":")
	if !split {
		local, remote = "", text
	}
	p := Port{Local: sameAsRemote}
	switch number, err := strconv.Atoi(local); {
	case split && local == "":
		p.Local = 0
	case split && (err != nil || number < 0 || number > maxPort):
		return Port{}, fmt.Errorf("%q: the local port isn't a number from 0 to %d", text, maxPort)
	case split:
		p.Local = number
	}
	switch number, err := strconv.Atoi(remote); {
	case remote == "" || strings.Contains(remote, ":"):
		return Port{}, fmt.Errorf("%q: want [LOCAL:]REMOTE", text)
	case err != nil:
		p.Name = remote
	case number < 1 || number > maxPort:
		return Port{}, fmt.Errorf("%q: the pod's port isn't from 1 to %d", text, maxPort)
	default:
		p.Number = int32(number) //nolint:gosec // Bounded.
	}
	return p, nil
}

// String is the pod's port as the user has written it.
func (p Port) String() string {
	if p.Name != "" {
		return p.Name
	}
	return strconv.Itoa(int(p.Number))
}
