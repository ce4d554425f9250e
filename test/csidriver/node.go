package csidriver

import (
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// node is the CSI service Node.
type node struct {
	csipb.UnimplementedNodeServer
	d *Driver
}

// NodeGetInfo is part of csipb.NodeServer.
func (n node) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	response := &csipb.NodeGetInfoResponse{NodeId: n.d.opts.NodeID, MaxVolumesPerNode: n.d.opts.MaxVolumes}
	if len(n.d.opts.Topology) > 0 {
		response.AccessibleTopology = &csipb.Topology{Segments: n.d.opts.Topology}
	}
	return response, nil
}

// NodeGetCapabilities is part of csipb.NodeServer.
func (n node) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	response := &csipb.NodeGetCapabilitiesResponse{}
	for _, c := range n.d.opts.Capabilities {
		t := csipb.NodeServiceCapability_RPC_Type(csipb.NodeServiceCapability_RPC_Type_value[string(c)])
		response.Capabilities = append(response.Capabilities, &csipb.NodeServiceCapability{
			Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return response, nil
}

// NodeGetVolumeStats is part of csipb.NodeServer.
func (n node) NodeGetVolumeStats(ctx context.Context, r *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	if !n.d.opts.can(Stats) {
		return nil, status.Error(codes.Unimplemented, "the driver hasn't the capability GET_VOLUME_STATS")
	}
	if err := required("volume_id", r.GetVolumeId(), "volume_path", r.GetVolumePath()); err != nil {
		return nil, err
	}
	v, u, err := n.d.inUse(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if u.Block {
		device, err := n.d.backing.device(ctx, v)
		if err != nil {
			return nil, internal(err)
		}
		size, err := deviceSize(ctx, device)
		if err != nil {
			return nil, internal(err)
		}
		return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{{Total: size, Unit: csipb.VolumeUsage_BYTES}}}, nil
	}
	s, err := statistics(r.GetVolumePath())
	if err != nil {
		return nil, internal(err)
	}
	block := s.Bsize
	return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{
			Unit: csipb.VolumeUsage_BYTES, Total: int64(s.Blocks) * block, Available: int64(s.Bavail) * block,
			Used: int64(s.Blocks-s.Bfree) * block,
		},
		{Unit: csipb.VolumeUsage_INODES, Total: int64(s.Files), Available: int64(s.Ffree), Used: int64(s.Files - s.Ffree)},
	}}, nil
}

// inUse returns a volume, and how it is used at a path.
func (d *Driver) inUse(id, path string) (*volume, use, error) {
	v, err := d.volume(id)
	if err != nil {
		return nil, use{}, err
	}
	u, err := d.store.usage(id)
	if err != nil {
		return nil, use{}, internal(err)
	}
	found, has := u.Published[path]
	if !has {
		found, has = u.Staged[path]
	}
	if !has {
		return nil, use{}, notFound("volume %s isn't at %s", id, path)
	}
	return v, found, nil
}

// NodeGetVolumeHealth is part of csipb.NodeServer.
func (n node) NodeGetVolumeHealth(_ context.Context, r *csipb.NodeGetVolumeHealthRequest) (*csipb.NodeGetVolumeHealthResponse, error) {
	if !n.d.opts.can(Health) {
		return nil, status.Error(codes.Unimplemented, "the driver hasn't the capability GET_VOLUME_HEALTH")
	}
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	if _, err := n.d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csipb.NodeGetVolumeHealthResponse{VolumeHealth: &csipb.VolumeHealth{VolumeId: r.GetVolumeId()}}, nil
}

// NodeExpandVolume is part of csipb.NodeServer.
func (n node) NodeExpandVolume(ctx context.Context, r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	if !n.d.opts.can(Expand) {
		return nil, status.Error(codes.Unimplemented, "the driver hasn't the capability EXPAND_VOLUME")
	}
	if err := required("volume_id", r.GetVolumeId(), "volume_path", r.GetVolumePath()); err != nil {
		return nil, err
	}
	v, u, err := n.d.inUse(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if wanted := r.GetCapacityRange().GetRequiredBytes(); wanted > v.Size {
		return nil, status.Errorf(codes.OutOfRange, "the volume has %d bytes, not %d: the controller must expand it", v.Size, wanted)
	}
	if err := n.d.backing.expand(ctx, v, u.Block); err != nil {
		return nil, internal(err)
	}
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}
