package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// agentID is what this podexecd marks its sandboxes with: a random id, made once and kept in --root-dir, so that it outlives
// restarts and changes of the node's name. Whoever removes it makes its pods another agent's.
func agentID(rootDir string) (string, error) {
	path := filepath.Join(rootDir, "agent-id")
	data, err := os.ReadFile(path)
	if err == nil {
		if id, err := uuid.Parse(strings.TrimSpace(string(data))); err == nil {
			return id.String(), nil
		}
		return "", fmt.Errorf("%s doesn't hold an id: the pods that run are marked with what it held; restore it, or remove it to start without them", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the agent's id: %w", err)
	}
	id := uuid.NewString()
	if err := renameio.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the agent's id: %w", err)
	}
	return id, nil
}

// hostIPs is the address of the interface with the default route: the node's own for others. None while there is no such route.
func hostIPs() []string {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		return nil
	}
	return []string{ip.String()}
}
