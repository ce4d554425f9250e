package csidriver

import (
	"context"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// controller is the CSI service Controller.
type controller struct {
	csipb.UnimplementedControllerServer
	d *Driver
}

// ControllerGetCapabilities is part of csipb.ControllerServer.
func (c controller) ControllerGetCapabilities(
	context.Context, *csipb.ControllerGetCapabilitiesRequest,
) (*csipb.ControllerGetCapabilitiesResponse, error) {
	types := []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	}
	if c.d.opts.AttachRequired {
		types = append(types, csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csipb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES, csipb.ControllerServiceCapability_RPC_PUBLISH_READONLY)
	}
	if c.d.opts.can(MultiWriter) {
		types = append(types, csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	}
	response := &csipb.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		response.Capabilities = append(response.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return response, nil
}

// CreateVolume is part of csipb.ControllerServer. A volume's ID is a function of its name.
func (c controller) CreateVolume(_ context.Context, r *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	if err := required("name", r.GetName()); err != nil {
		return nil, err
	}
	if err := c.d.supports(r.GetVolumeCapabilities()...); err != nil {
		return nil, err
	}
	size, limit := max(r.GetCapacityRange().GetRequiredBytes(), 0), r.GetCapacityRange().GetLimitBytes()
	if size == 0 {
		size = DefaultSize
		if limit > 0 {
			size = min(size, limit)
		}
	}
	if limit > 0 && size > limit {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are more than the limit of %d", size, limit)
	}
	unlock, err := c.d.store.lock()
	if err != nil {
		return nil, internal(err)
	}
	defer unlock()
	id := "vol-" + key(r.GetName())
	v, err := c.d.store.get(id)
	if err != nil {
		return nil, internal(err)
	}
	if v != nil && (v.Size < r.GetCapacityRange().GetRequiredBytes() || limit > 0 && v.Size > limit) {
		return nil, conflict("volume %s exists with %d bytes", r.GetName(), v.Size)
	}
	if v == nil {
		v = &volume{ID: id, Name: r.GetName(), Size: size, Parameters: r.GetParameters()}
		if err := c.d.make(v); err != nil {
			return nil, internal(err)
		}
	}
	made := c.d.describeVolume(v)
	if len(c.d.opts.Topology) > 0 {
		made.AccessibleTopology = []*csipb.Topology{{Segments: c.d.opts.Topology}}
	}
	return &csipb.CreateVolumeResponse{Volume: made}, nil
}

func (*Driver) describeVolume(v *volume) *csipb.Volume {
	return &csipb.Volume{VolumeId: v.ID, CapacityBytes: v.Size, VolumeContext: v.Parameters}
}

// DeleteVolume is part of csipb.ControllerServer.
func (c controller) DeleteVolume(_ context.Context, r *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	unlock, err := c.d.store.lock()
	if err != nil {
		return nil, internal(err)
	}
	defer unlock()
	v, err := c.d.store.get(r.GetVolumeId())
	if err != nil {
		return nil, internal(err)
	}
	if v == nil {
		return &csipb.DeleteVolumeResponse{}, nil
	}
	if err := c.d.unused(v); err != nil {
		return nil, err
	}
	if err := c.d.backing.remove(v); err != nil {
		return nil, internal(err)
	}
	if err := c.d.store.remove(v.ID); err != nil {
		return nil, internal(err)
	}
	return &csipb.DeleteVolumeResponse{}, nil
}

// unused returns an error if a volume is attached, or in use on a node.
func (d *Driver) unused(v *volume) error {
	if len(v.Attached) > 0 {
		return precondition("volume %s is attached to %d nodes", v.ID, len(v.Attached))
	}
	users, err := d.store.users(v.ID)
	if err != nil {
		return internal(err)
	}
	if users > 0 {
		return precondition("volume %s is in use on %d nodes", v.ID, users)
	}
	return nil
}

// ListVolumes is part of csipb.ControllerServer. A token is the last volume's ID, after a prefix.
func (c controller) ListVolumes(_ context.Context, r *csipb.ListVolumesRequest) (*csipb.ListVolumesResponse, error) {
	const prefix = "after "
	after, valid := strings.CutPrefix(r.GetStartingToken(), prefix)
	if r.GetStartingToken() != "" && !valid {
		return nil, status.Errorf(codes.Aborted, "invalid starting_token %q", r.GetStartingToken())
	}
	if r.GetMaxEntries() < 0 {
		return nil, invalid("max_entries is negative")
	}
	all, err := c.d.store.list()
	if err != nil {
		return nil, internal(err)
	}
	response := &csipb.ListVolumesResponse{}
	for _, v := range all {
		if v.ID <= after && valid {
			continue
		}
		if n := len(response.Entries); r.GetMaxEntries() > 0 && n == int(r.GetMaxEntries()) {
			response.NextToken = prefix + response.Entries[n-1].GetVolume().GetVolumeId()
			break
		}
		state := &csipb.ListVolumesResponse_VolumeStatus{}
		if c.d.opts.AttachRequired {
			for node := range v.Attached {
				state.PublishedNodeIds = append(state.PublishedNodeIds, node)
			}
		}
		response.Entries = append(response.Entries, &csipb.ListVolumesResponse_Entry{Volume: c.d.describeVolume(v), Status: state})
	}
	return response, nil
}

// ValidateVolumeCapabilities is part of csipb.ControllerServer.
func (c controller) ValidateVolumeCapabilities(
	_ context.Context, r *csipb.ValidateVolumeCapabilitiesRequest,
) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, invalid("volume_capabilities are missing")
	}
	if _, err := c.d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := c.d.supports(r.GetVolumeCapabilities()...); err != nil {
		return &csipb.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	return &csipb.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
		},
	}, nil
}

// ControllerExpandVolume is part of csipb.ControllerServer.
func (c controller) ControllerExpandVolume(
	_ context.Context, r *csipb.ControllerExpandVolumeRequest,
) (*csipb.ControllerExpandVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	wanted := r.GetCapacityRange().GetRequiredBytes()
	if wanted <= 0 {
		return nil, invalid("capacity_range.required_bytes is missing")
	}
	if limit := r.GetCapacityRange().GetLimitBytes(); limit > 0 && wanted > limit {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are more than the limit of %d", wanted, limit)
	}
	v, err := c.d.store.change(r.GetVolumeId(), func(v *volume) error {
		v.Size = max(v.Size, wanted)
		return c.d.backing.grow(v)
	})
	if err != nil {
		return nil, internal(err)
	}
	if v == nil {
		return nil, notFound("there is no volume %s", r.GetVolumeId())
	}
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: c.d.opts.can(Expand)}, nil
}

// volume returns a volume, or the error NotFound.
func (d *Driver) volume(id string) (*volume, error) {
	v, err := d.store.get(id)
	if err != nil {
		return nil, internal(err)
	}
	if v == nil {
		return nil, notFound("there is no volume %s", id)
	}
	return v, nil
}
