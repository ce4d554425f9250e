package simruntime

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is a pod sandbox, from RunPodSandbox to RemovePodSandbox.
type sandbox struct {
	id, name  string
	config    *runtimeapi.PodSandboxConfig // as received; never changed
	handler   string
	state     runtimeapi.PodSandboxState
	createdAt int64
	// address is the pod's address until the sandbox is stopped. It is invalid in the host's network.
	address    netip.Addr
	containers map[string]*container
}

func hostNetwork(config *runtimeapi.PodSandboxConfig) bool {
	return config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// status returns the sandbox for PodSandboxStatus and events.
func (b *sandbox) status() *runtimeapi.PodSandboxStatus {
	network := &runtimeapi.PodSandboxNetworkStatus{}
	if b.address.IsValid() {
		network.Ip = b.address.String()
	}
	return &runtimeapi.PodSandboxStatus{
		Id: b.id, Metadata: b.config.GetMetadata(), State: b.state, CreatedAt: b.createdAt, Network: network,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: b.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(), RuntimeHandler: b.handler,
	}
}

// summary returns the sandbox for ListPodSandbox.
func (b *sandbox) summary() *runtimeapi.PodSandbox {
	return &runtimeapi.PodSandbox{
		Id: b.id, Metadata: b.config.GetMetadata(), State: b.state, CreatedAt: b.createdAt,
		Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(), RuntimeHandler: b.handler,
	}
}

// matches reports whether the labels match the selector.
func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

func (b *sandbox) selected(f *runtimeapi.PodSandboxFilter) bool {
	return (f.GetId() == "" || f.GetId() == b.id) &&
		(f.GetState() == nil || f.GetState().GetState() == b.state) &&
		matches(f.GetLabelSelector(), b.config.GetLabels())
}

// findSandbox returns a sandbox. The caller holds the lock.
func (s *Server) findSandbox(id string) (*sandbox, error) {
	if b, ok := s.sandboxes[id]; ok {
		return b, nil
	}
	return nil, notFound("an error occurred when try to find sandbox %q", id)
}

// RunPodSandbox creates a ready sandbox.
func (s *runtimeService) RunPodSandbox(_ context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	config := req.GetConfig()
	if config.GetMetadata() == nil {
		return nil, errors.New("sandbox config must include metadata")
	}
	if !isHandler(req.GetRuntimeHandler()) {
		return nil, fmt.Errorf("failed to get sandbox runtime: no runtime for %q is configured", req.GetRuntimeHandler())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &sandbox{
		id: newID(), name: sandboxName(config.GetMetadata()), config: config, handler: req.GetRuntimeHandler(),
		state: runtimeapi.PodSandboxState_SANDBOX_READY, createdAt: s.clock.Now().UnixNano(), containers: make(map[string]*container),
	}
	if err := s.sandboxNames.reserve(b.name, b.id); err != nil {
		return nil, fmt.Errorf("failed to reserve sandbox name %q: %w", b.name, err)
	}
	if !hostNetwork(config) {
		address, err := s.addresses.take()
		if err != nil {
			delete(s.sandboxNames, b.name)
			return nil, fmt.Errorf("failed to setup network for sandbox %q: %w", b.id, err)
		}
		b.address = address
	}
	s.sandboxes[b.id] = b
	s.emit(b.id, b, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	s.emit(b.id, b, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: b.id}, nil
}

// StopPodSandbox kills the sandbox's containers without a grace period, and frees its address. It is idempotent.
func (s *runtimeService) StopPodSandbox(_ context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.sandboxes[req.GetPodSandboxId()]; ok {
		s.stopSandbox(b)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// stopSandbox stops the sandbox. The caller holds the lock.
func (s *Server) stopSandbox(b *sandbox) {
	s.killSandbox(b)
	// killSandbox doesn't free the address: the network of a dead sandbox stays until StopPodSandbox.
	if b.address.IsValid() {
		s.addresses.free(b.address)
		b.address = netip.Addr{}
	}
}

// killSandbox ends all containers of the sandbox. The caller holds the lock.
func (s *Server) killSandbox(b *sandbox) {
	for _, c := range b.containers {
		s.kill(c)
	}
	if b.state == runtimeapi.PodSandboxState_SANDBOX_READY {
		b.state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		s.emit(b.id, b, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
}

// RemovePodSandbox stops the sandbox if needed, and removes it and its containers. It is idempotent.
func (s *runtimeService) RemovePodSandbox(_ context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.sandboxes[req.GetPodSandboxId()]
	if !ok {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	s.stopSandbox(b)
	for _, c := range b.containers {
		s.remove(c)
	}
	s.emit(b.id, nil, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	delete(s.sandboxes, b.id)
	delete(s.sandboxNames, b.name)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus returns one sandbox, or NotFound if it doesn't exist.
func (s *runtimeService) PodSandboxStatus(_ context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.findSandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: b.status()}, nil
}

// ListPodSandbox returns the sandboxes that match the whole filter.
func (s *runtimeService) ListPodSandbox(_ context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: s.listSandboxes(req.GetFilter())}, nil
}

func (s *Server) listSandboxes(filter *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*runtimeapi.PodSandbox
	for _, b := range s.sandboxes {
		if b.selected(filter) {
			out = append(out, b.summary())
		}
	}
	return out
}
