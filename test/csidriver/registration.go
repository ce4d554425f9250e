package csidriver

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registrationv1 "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstream/podstream/test/csidriver/calllog"
)

// registration is the registration service of plugins, which otherwise a registrar serves for the driver.
type registration struct {
	registrationv1.UnimplementedRegistrationServer
	d *Driver
}

// GetInfo is part of registrationv1.RegistrationServer.
func (r registration) GetInfo(context.Context, *registrationv1.InfoRequest) (*registrationv1.PluginInfo, error) {
	return &registrationv1.PluginInfo{
		Type: registrationv1.CSIPlugin, Name: r.d.opts.RegistrationName, Endpoint: r.d.opts.RegistrationEndpoint,
		SupportedVersions: r.d.opts.RegistrationVersions,
	}, nil
}

// NotifyRegistrationStatus is part of registrationv1.RegistrationServer.
func (r registration) NotifyRegistrationStatus(
	_ context.Context, s *registrationv1.RegistrationStatus,
) (*registrationv1.RegistrationStatusResponse, error) {
	record := r.d.record(calllog.Registration)
	record.Message = s.GetError()
	if !s.GetPluginRegistered() && record.Message == "" {
		record.Message = "not registered, without a reason"
	}
	if err := r.d.log.Write(record); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if s.GetPluginRegistered() {
		r.d.mu.Lock()
		defer r.d.mu.Unlock()
		select {
		case <-r.d.registered:
		default:
			close(r.d.registered)
		}
	}
	return &registrationv1.RegistrationStatusResponse{}, nil
}
