package simruntime

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is a container, from CreateContainer to RemoveContainer.
type container struct {
	id, name string
	sandbox  *sandbox
	config   *runtimeapi.ContainerConfig // as received; never changed
	image    *image
	logPath  string
	files    *files

	state                            runtimeapi.ContainerState
	createdAt, startedAt, finishedAt int64
	exitCode                         int32
	reason, message                  string
	resources                        *runtimeapi.ContainerResources // replaced, never changed

	process process
	log     containerLog
	// termSent is set once a stop has sent SIGTERM. containerd sends it only once.
	termSent bool
	// exited is closed when the container ends or is removed by DropAll.
	exited chan struct{}
}

// environment returns the environment of the container's processes.
func (c *container) environment() environment {
	e := environment{
		hostname:    c.sandbox.config.GetHostname(),
		memoryLimit: c.resources.GetLinux().GetMemoryLimitInBytes(),
		files:       c.files,
	}
	for _, env := range c.config.GetEnvs() {
		e.env = append(e.env, env.GetKey()+"="+string(env.GetValue()))
	}
	return e
}

// containerStatus returns the container's status for ContainerStatus and events. The caller holds the lock.
func (s *Server) containerStatus(c *container) *runtimeapi.ContainerStatus {
	// The config usually has the image's ID. The status has the image's tag, and its digest as the reference. If the
	// image was removed, only the name in the config is left.
	spec, ref := c.config.GetImage(), c.image.id
	if s.images.has(c.image) {
		if c.image.tag != "" {
			spec = &runtimeapi.ImageSpec{Image: c.image.tag}
		}
		ref = c.image.digest
	}
	reason := c.reason
	if c.state == runtimeapi.ContainerState_CONTAINER_EXITED && reason == "" {
		reason = "Error"
		if c.exitCode == 0 {
			reason = "Completed"
		}
	}
	return &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state,
		CreatedAt: c.createdAt, StartedAt: c.startedAt, FinishedAt: c.finishedAt,
		ExitCode: c.exitCode, Reason: reason, Message: c.message,
		Image: spec, ImageRef: ref, ImageId: c.image.id,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		LogPath: c.logPath, Resources: c.resources,
	}
}

// summary returns the container for ListContainers.
func (c *container) summary() *runtimeapi.Container {
	return &runtimeapi.Container{
		Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.GetMetadata(), State: c.state, CreatedAt: c.createdAt,
		Image: c.config.GetImage(), ImageRef: c.image.id, ImageId: c.image.id,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
	}
}

func (c *container) selected(f *runtimeapi.ContainerFilter) bool {
	return (f.GetId() == "" || f.GetId() == c.id) &&
		(f.GetState() == nil || f.GetState().GetState() == c.state) &&
		(f.GetPodSandboxId() == "" || f.GetPodSandboxId() == c.sandbox.id) &&
		matches(f.GetLabelSelector(), c.config.GetLabels())
}

// findContainer returns a container. The caller holds the lock.
func (s *Server) findContainer(id string) (*container, error) {
	if c, ok := s.containers[id]; ok {
		return c, nil
	}
	return nil, notFound("an error occurred when try to find container %q", id)
}

// CreateContainer creates a container of a present image, in a ready sandbox.
func (s *runtimeService) CreateContainer(_ context.Context, req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	config := req.GetConfig()
	if config.GetMetadata() == nil {
		return nil, errors.New("container config must include metadata")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.sandboxes[req.GetPodSandboxId()]
	switch {
	case !ok:
		return nil, notFound("failed to find sandbox id %q", req.GetPodSandboxId())
	case b.state != runtimeapi.PodSandboxState_SANDBOX_READY:
		return nil, notFound("failed to get sandbox container task: no running task found: task %s", b.id)
	}
	c := &container{
		id: newID(), name: containerName(config.GetMetadata(), b.config.GetMetadata()), sandbox: b, config: config,
		files: newFiles(config.GetMounts()), state: runtimeapi.ContainerState_CONTAINER_CREATED,
		createdAt: s.clock.Now().UnixNano(), exited: make(chan struct{}),
		resources: &runtimeapi.ContainerResources{Linux: config.GetLinux().GetResources()},
	}
	if logs := b.config.GetLogDirectory(); logs != "" && config.GetLogPath() != "" {
		c.logPath = filepath.Join(logs, config.GetLogPath())
	}
	if err := s.containerNames.reserve(c.name, c.id); err != nil {
		return nil, fmt.Errorf("failed to reserve container name %q: %w", c.name, err)
	}
	if c.image = s.images.find(config.GetImage().GetImage()); c.image == nil {
		delete(s.containerNames, c.name)
		return nil, notFound("failed to resolve image %q", config.GetImage().GetImage())
	}
	s.containers[c.id], b.containers[c.id] = c, c
	s.emit(c.id, b, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// RemoveContainer removes a container, after killing it if it runs. It is idempotent. The log stays.
func (s *runtimeService) RemoveContainer(_ context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.containers[req.GetContainerId()]; ok {
		s.remove(c)
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// remove removes the container. The caller holds the lock.
func (s *Server) remove(c *container) {
	s.kill(c)
	delete(s.containers, c.id)
	delete(c.sandbox.containers, c.id)
	delete(s.containerNames, c.name)
	s.emit(c.id, c.sandbox, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
}

// ContainerStatus returns one container. NotFound if it doesn't exist.
func (s *runtimeService) ContainerStatus(_ context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: s.containerStatus(c)}, nil
}

// ListContainers returns the containers that match the whole filter.
func (s *runtimeService) ListContainers(_ context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: s.listContainers(req.GetFilter())}, nil
}

func (s *Server) listContainers(filter *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*runtimeapi.Container
	for _, c := range s.containers {
		if c.selected(filter) {
			out = append(out, c.summary())
		}
	}
	return out
}

// UpdateContainerResources sets the resources that the request has, and keeps the others.
func (s *runtimeService) UpdateContainerResources(_ context.Context, req *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	// A copy, because a response may still refer to the old resources.
	resources := proto.CloneOf(c.resources)
	proto.Merge(resources, &runtimeapi.ContainerResources{Linux: req.GetLinux()})
	c.resources = resources
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// ReopenContainerLog opens a new log file after a rotation.
func (s *runtimeService) ReopenContainerLog(_ context.Context, req *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, errors.New("container is not running")
	}
	if err := c.log.reopen(); err != nil {
		return nil, fmt.Errorf("failed to reopen container log file %q: %w", c.logPath, err)
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
