package csidriver

import (
	"encoding/json"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protojson"
)

// supports returns an error for capabilities that no volume of this driver can have, and if there is none.
func (d *Driver) supports(all ...*csipb.VolumeCapability) error {
	if len(all) == 0 {
		return invalid("volume_capabilities are missing")
	}
	for _, c := range all {
		if c.GetBlock() == nil && c.GetMount() == nil {
			return invalid("access_type is missing")
		}
		if c.GetBlock() != nil && d.opts.Backing != Image {
			return invalid("there are no block volumes: the driver's volumes are directories")
		}
		if fs := c.GetMount().GetFsType(); fs != "" && fs != "ext4" && d.opts.Backing == Image {
			return invalid("fs_type %q: it must be ext4", fs)
		}
		flags := c.GetMount().GetMountFlags()
		if d.opts.Contexts {
			flags = slices.DeleteFunc(slices.Clone(flags), isContext)
		}
		if unknown := notOf(flags); unknown != "" && d.opts.Backing == Directory {
			return invalid("mount_flags %q: a bind mount can't have them", unknown)
		}
		switch c.GetAccessMode().GetMode() {
		case csipb.VolumeCapability_AccessMode_UNKNOWN:
			return invalid("access_mode is missing")
		case csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
			if !d.opts.can(MultiWriter) {
				return invalid("access_mode %v: the driver hasn't the capability %s", c.GetAccessMode().GetMode(), MultiWriter)
			}
		}
		if c.GetMount().GetVolumeMountGroup() != "" && !d.opts.can(MountGroup) {
			return invalid("volume_mount_group: the driver hasn't the capability %s", MountGroup)
		}
	}
	return nil
}

// singleNode reports whether a volume can be used on one node only.
func singleNode(c *csipb.VolumeCapability) bool {
	switch c.GetAccessMode().GetMode() {
	case csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csipb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return true
	}
	return false
}

// textOf is a capability as the state has it.
func textOf(c *csipb.VolumeCapability) (string, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(c)
	if err != nil {
		return "", err
	}
	// protojson varies its spaces.
	compact, err := json.Marshal(json.RawMessage(text))
	return string(compact), err
}

func isContext(flag string) bool { return strings.HasPrefix(flag, "context=") }

// contextOf returns the option of the SELinux context; empty: none.
func contextOf(c *csipb.VolumeCapability) string {
	flags := c.GetMount().GetMountFlags()
	if i := slices.IndexFunc(flags, isContext); i >= 0 {
		return flags[i]
	}
	return ""
}

// checkContext returns an error if the volume is mounted with another SELinux context.
func (u *usage) checkContext(wanted use) error {
	for path, has := range u.Staged {
		if has.Context != wanted.Context {
			return precondition("it is staged at %s with the context %q, not %q", path, has.Context, wanted.Context)
		}
	}
	for path, has := range u.Published {
		if has.Context != wanted.Context {
			return precondition("it is published at %s with the context %q, not %q", path, has.Context, wanted.Context)
		}
	}
	return nil
}
