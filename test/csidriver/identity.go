package csidriver

import (
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// identity is the CSI service Identity.
type identity struct {
	csipb.UnimplementedIdentityServer
	d *Driver
}

// GetPluginInfo is part of csipb.IdentityServer.
func (i identity) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: i.d.opts.Name, VendorVersion: "test"}, nil
}

// GetPluginCapabilities is part of csipb.IdentityServer.
func (i identity) GetPluginCapabilities(
	context.Context, *csipb.GetPluginCapabilitiesRequest,
) (*csipb.GetPluginCapabilitiesResponse, error) {
	types := []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE}
	if len(i.d.opts.Topology) > 0 {
		types = append(types, csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	response := &csipb.GetPluginCapabilitiesResponse{}
	for _, t := range types {
		response.Capabilities = append(response.Capabilities, &csipb.PluginCapability{
			Type: &csipb.PluginCapability_Service_{Service: &csipb.PluginCapability_Service{Type: t}},
		})
	}
	response.Capabilities = append(response.Capabilities, &csipb.PluginCapability{
		Type: &csipb.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &csipb.PluginCapability_VolumeExpansion{Type: csipb.PluginCapability_VolumeExpansion_ONLINE},
		},
	})
	return response, nil
}

// Probe is part of csipb.IdentityServer.
func (identity) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}
