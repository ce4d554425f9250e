package podctl

import (
	"fmt"
	"path/filepath"
)

// The environment variables that podctl reads. A flag wins over a variable, and an endpoint's variable over the
// directory.
const (
	// envRunDir is the directory of both daemons' sockets.
	envRunDir = "PODSTREAM_RUN_DIR"
	// envPodconfigEndpoint and envPodexecEndpoint are what --podconfig-endpoint and --podexec-endpoint take.
	envPodconfigEndpoint = "PODSTREAM_PODCONFIG_ENDPOINT"
	envPodexecEndpoint   = "PODSTREAM_PODEXEC_ENDPOINT"
)

// defaultRunDir is where the daemons listen by default.
const defaultRunDir = "/run/podstream"

// readEnvironment sets the endpoints' defaults.
func (t *tool) readEnvironment() error {
	dir := t.Getenv(envRunDir)
	if dir == "" {
		dir = defaultRunDir
	}
	for _, e := range []struct {
		endpoint       *endpoint
		variable, file string
	}{
		{&t.podconfigd.endpoint, envPodconfigEndpoint, "podconfigd.sock"},
		{&t.podexecd.endpoint, envPodexecEndpoint, "podexecd.sock"},
	} {
		*e.endpoint = endpoint{path: filepath.Join(dir, e.file)}
		if text := t.Getenv(e.variable); text != "" {
			if err := e.endpoint.Set(text); err != nil {
				return fmt.Errorf("%s=%s: %w", e.variable, text, err)
			}
		}
	}
	return nil
}
