package csidriver

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podstream/podstream/test/csidriver/fault"
)

// Backing is what volumes are made of.
type Backing string

// The kinds of volumes.
const (
	// Directory volumes are directories. Their capacity is a number that nothing enforces. They can't be block volumes.
	Directory Backing = "directory"
	// Image volumes are sparse files with a loop device; as file systems, they have ext4.
	Image Backing = "image"
)

// Capability is an optional feature of the node service.
type Capability string

// The capabilities. GetVolumeHealth takes the place of VOLUME_CONDITION, which version 1.13 of the specification has removed.
const (
	Stage       Capability = "STAGE_UNSTAGE_VOLUME"
	Expand      Capability = "EXPAND_VOLUME"
	Stats       Capability = "GET_VOLUME_STATS"
	MountGroup  Capability = "VOLUME_MOUNT_GROUP"
	MultiWriter Capability = "SINGLE_NODE_MULTI_WRITER"
	Health      Capability = "GET_VOLUME_HEALTH"
)

// AllCapabilities are all of them.
var AllCapabilities = []Capability{Stage, Expand, Stats, MountGroup, MultiWriter, Health}

// Options configure a Driver.
type Options struct {
	// Name is the driver's name. Empty: csi.podstream.test.
	Name string
	// NodeID is the node's ID for the driver. Empty: node-1.
	NodeID string
	// OtherNodes are the IDs of further nodes to which ControllerPublishVolume may attach volumes.
	OtherNodes []string
	// Topology are the segments that NodeGetInfo reports. Empty: none.
	Topology map[string]string
	// MaxVolumes is the limit of attached volumes of a node. Zero: none.
	MaxVolumes int64
	// Capabilities are those of the node service. Nil: AllCapabilities.
	Capabilities []Capability
	// AttachRequired adds PUBLISH_UNPUBLISH_VOLUME to the controller service. Volumes must then be attached before they are staged.
	AttachRequired bool
	// Backing is the kind of all volumes. Empty: Directory.
	Backing Backing
	// Contexts is set if volumes of Directory may have the mount option of an SELinux context. It isn't applied, so the node needs
	// no SELinux. As with the kernel, a volume has one context at a time.
	Contexts bool

	// Dir has the state. It is needed. Endpoint is the path of the CSI socket. Empty: csi.sock in Dir.
	Dir      string
	Endpoint string
	// Log is the path of the log. Empty: calls.jsonl in Dir.
	Log string
	// Control is the path of the control socket. Empty: none; the faults are set by Driver.Faults.
	Control string
	// Volumes exist from the start: "ID" or "ID=BYTES". Without BYTES they have DefaultSize.
	Volumes []string
	// Faults are set from the start.
	Faults []fault.Fault

	// Registration is the path of the registration socket, in the agent's plugins_registry. Empty: the driver isn't registered.
	Registration string
	// RegistrationName, RegistrationVersions and RegistrationEndpoint are the answer of GetInfo. Empty: Name, 1.0.0 and Endpoint.
	RegistrationName     string
	RegistrationVersions []string
	RegistrationEndpoint string

	// Die ends the process at once. Nil: Driver.Kill has the same effect for clients.
	Die func()
}

// DefaultSize is the size in bytes of a volume for which nothing else was requested.
const DefaultSize = 64 << 20

// complete returns the options with their defaults.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("no directory for the state")
	}
	o.Name = cmp.Or(o.Name, "csi.podstream.test")
	o.NodeID = cmp.Or(o.NodeID, "node-1")
	o.Backing = cmp.Or(o.Backing, Directory)
	if o.Backing != Directory && o.Backing != Image {
		return o, fmt.Errorf("backing %q: must be directory or image", o.Backing)
	}
	o.Endpoint = cmp.Or(o.Endpoint, filepath.Join(o.Dir, "csi.sock"))
	o.Log = cmp.Or(o.Log, filepath.Join(o.Dir, "calls.jsonl"))
	o.RegistrationName = cmp.Or(o.RegistrationName, o.Name)
	o.RegistrationEndpoint = cmp.Or(o.RegistrationEndpoint, o.Endpoint)
	if len(o.RegistrationVersions) == 0 {
		o.RegistrationVersions = []string{"1.0.0"}
	}
	if o.Capabilities == nil {
		o.Capabilities = AllCapabilities
	}
	for _, c := range o.Capabilities {
		if !slices.Contains(AllCapabilities, c) {
			return o, fmt.Errorf("unknown capability %q; there are %v", c, AllCapabilities)
		}
	}
	return o, nil
}

// can reports whether the driver has a capability.
func (o *Options) can(c Capability) bool { return slices.Contains(o.Capabilities, c) }

// parseVolume parses an element of Options.Volumes.
func parseVolume(text string) (id string, size int64, err error) {
	id, bytes, sized := strings.Cut(text, "=")
	size = DefaultSize
	if sized {
		size, err = strconv.ParseInt(bytes, 10, 64)
	}
	if err != nil || id == "" || size <= 0 {
		return "", 0, fmt.Errorf("volume %q: must be ID or ID=BYTES", text)
	}
	return id, size, nil
}
