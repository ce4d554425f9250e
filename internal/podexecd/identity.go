package podexecd

import (
	"errors"
	"fmt"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/podstream/podstream/internal/daemon"
)

// agentID is what this podexecd marks its sandboxes with. Whoever removes its file makes its pods another agent's.
func agentID(rootDir string) (string, error) {
	id, err := daemon.ID(rootDir, "agent-id")
	if errors.Is(err, daemon.ErrDamagedID) {
		return "", fmt.Errorf("%w: the pods that run are marked with what it held; restore it, or remove it to start without them", err)
	}
	return id, err
}

// hostIPs is the address of the interface with the default route: the node's own for others. None while there is no such route.
func hostIPs() []string {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		return nil
	}
	return []string{ip.String()}
}
