package simruntime

import (
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Errors of the methods that tests call.
var (
	// ErrUnknown: no sandbox or container has the ID.
	ErrUnknown = errors.New("no such sandbox or container")
	// ErrNotRunning: the container hasn't been started, or has ended.
	ErrNotRunning = errors.New("the container isn't running")
)

// ExitContainer makes a running container end by itself with the exit code, now.
func (s *Server) ExitContainer(id string, code int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.containers[id]
	switch {
	case !ok:
		return fmt.Errorf("exit container %s: %w", id, ErrUnknown)
	case c.state != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return fmt.Errorf("exit container %s: %w", id, ErrNotRunning)
	}
	s.exit(c, code, "")
	return nil
}

// KillSandbox simulates a killed pause process: the sandbox is not ready, its containers have exited with code 137,
// and its network stays until StopPodSandbox.
func (s *Server) KillSandbox(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.sandboxes[id]
	if !ok {
		return fmt.Errorf("kill sandbox %s: %w", id, ErrUnknown)
	}
	s.killSandbox(b)
	return nil
}

// DropPod removes the sandboxes and containers of one pod, by the UID in the sandboxes' metadata, without an event.
// Calls that wait for one of the containers to stop return without an error.
func (s *Server) DropPod(uid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := false
	for _, b := range s.sandboxes {
		if b.config.GetMetadata().GetUid() == uid {
			known = true
			s.drop(b)
		}
	}
	if !known {
		return fmt.Errorf("drop pod %s: %w", uid, ErrUnknown)
	}
	return nil
}

// drop removes the sandbox. The caller holds the lock.
func (s *Server) drop(b *sandbox) {
	for _, c := range b.containers {
		c.release()
		delete(s.containers, c.id)
		delete(s.containerNames, c.name)
	}
	if b.address.IsValid() {
		s.addresses.free(b.address)
	}
	delete(s.sandboxes, b.id)
	delete(s.sandboxNames, b.name)
}

// DropAll removes all sandboxes, containers and pulled images, without an event, as if the runtime's disk had been
// erased. Calls that wait for a container to stop return without an error. Unread events and call counts stay.
func (s *Server) DropAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		c.release()
	}
	s.reset()
}
