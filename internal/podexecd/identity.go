package podexecd

import (
	"errors"
	"fmt"

	"github.com/podstream/podstream/internal/daemon"
)

// agentID returns the ID that marks this podexecd's sandboxes. Without its file the existing pods belong to another
// agent.
func agentID(rootDir string) (string, error) {
	id, err := daemon.ID(rootDir, "agent-id")
	if errors.Is(err, daemon.ErrDamagedID) {
		return "", fmt.Errorf("%w: the pods that run are marked with what it held; restore it, or remove it to start without them", err)
	}
	return id, err
}
