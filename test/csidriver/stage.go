package csidriver

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeStageVolume is part of csipb.NodeServer.
func (n node) NodeStageVolume(ctx context.Context, r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	if !n.d.opts.can(Stage) {
		return nil, status.Error(codes.Unimplemented, "the driver hasn't the capability STAGE_UNSTAGE_VOLUME")
	}
	if err := required("volume_id", r.GetVolumeId(), "staging_target_path", r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	wanted, v, err := n.d.wanted(r.GetVolumeId(), r.GetVolumeCapability(), r.GetPublishContext())
	if err != nil {
		return nil, err
	}
	path := r.GetStagingTargetPath()
	u, err := n.d.store.usage(v.ID)
	if err != nil {
		return nil, internal(err)
	}
	if now, has := u.Staged[path]; has && now != wanted {
		return nil, conflict("volume %s is staged at %s with another capability", v.ID, path)
	}
	if err := u.checkContext(wanted); err != nil {
		return nil, err
	}
	if err := n.d.stage(ctx, v, path, u, wanted, r.GetVolumeCapability()); err != nil {
		return nil, internal(err)
	}
	return &csipb.NodeStageVolumeResponse{}, nil
}

// wanted checks what NodeStageVolume and NodePublishVolume have in common.
func (d *Driver) wanted(id string, c *csipb.VolumeCapability, publishContext map[string]string) (use, *volume, error) {
	if c == nil {
		return use{}, nil, invalid("volume_capability is missing")
	}
	if err := d.supports(c); err != nil {
		return use{}, nil, err
	}
	v, err := d.volume(id)
	if err != nil {
		return use{}, nil, err
	}
	if _, has := v.Attached[d.opts.NodeID]; d.opts.AttachRequired && (!has || publishContext[attached] != d.opts.NodeID) && !v.Inline {
		return use{}, nil, precondition("volume %s isn't attached to node %s, or the publish context isn't that of the controller",
			id, d.opts.NodeID)
	}
	text, err := textOf(c)
	if err != nil {
		return use{}, nil, internal(err)
	}
	single := c.GetAccessMode().GetMode() == csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	return use{Capability: text, Block: c.GetBlock() != nil, Single: single, Context: contextOf(c)}, v, nil
}

// stage records and does what NodeStageVolume does.
func (d *Driver) stage(ctx context.Context, v *volume, path string, u usage, wanted use, c *csipb.VolumeCapability) error {
	u.Staged[path] = wanted
	if err := d.store.putUsage(v.ID, u); err != nil {
		return err
	}
	if err := d.backing.stage(ctx, v, path, wanted.Block, c.GetMount().GetMountFlags()); err != nil {
		return err
	}
	return setGroup(path, c)
}

// setGroup gives the root of a file system to the group of VOLUME_MOUNT_GROUP.
func setGroup(path string, c *csipb.VolumeCapability) error {
	group := c.GetMount().GetVolumeMountGroup()
	if group == "" {
		return nil
	}
	gid, err := strconv.ParseUint(group, 10, 32)
	if err != nil {
		return invalid("volume_mount_group %q isn't a number", group)
	}
	if err := os.Chown(path, -1, int(gid)); err != nil {
		return err
	}
	return os.Chmod(path, 0o770|os.ModeSetgid)
}

// NodeUnstageVolume is part of csipb.NodeServer.
func (n node) NodeUnstageVolume(ctx context.Context, r *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	if !n.d.opts.can(Stage) {
		return nil, status.Error(codes.Unimplemented, "the driver hasn't the capability STAGE_UNSTAGE_VOLUME")
	}
	if err := required("volume_id", r.GetVolumeId(), "staging_target_path", r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	u, err := n.d.store.usage(r.GetVolumeId())
	if err != nil {
		return nil, internal(err)
	}
	if err := n.d.unstage(ctx, r.GetVolumeId(), r.GetStagingTargetPath(), u); err != nil {
		return nil, internal(err)
	}
	return &csipb.NodeUnstageVolumeResponse{}, nil
}

// unstage undoes stage. Where nothing was staged, it does nothing.
func (d *Driver) unstage(ctx context.Context, id, path string, u usage) error {
	if _, has := u.Staged[path]; !has {
		return nil
	}
	if err := d.backing.unstage(ctx, &volume{ID: id}, path); err != nil {
		return err
	}
	delete(u.Staged, path)
	return d.store.putUsage(id, u)
}

// ownStaging is where a volume is staged if the agent has no staging path for it.
func (d *Driver) ownStaging(id string) string {
	return filepath.Join(d.opts.Dir, "mounts", key(d.opts.NodeID)+"-"+key(id))
}
