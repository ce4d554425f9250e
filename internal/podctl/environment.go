package podctl

import (
	"fmt"
	"path/filepath"
)

// The environment variables of endpoints. A flag takes precedence over a variable, an endpoint's variable over the directory,
// and all of them over the current context.
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
		daemon         *daemon
		variable, file string
	}{
		{&t.podconfigd, envPodconfigEndpoint, "podconfigd.sock"},
		{&t.podexecd, envPodexecEndpoint, "podexecd.sock"},
	} {
		e.daemon.endpoint = endpoint{path: filepath.Join(dir, e.file)}
		e.daemon.fromEnvironment = t.Getenv(envRunDir) != "" || t.Getenv(e.variable) != ""
		if text := t.Getenv(e.variable); text != "" {
			if err := e.daemon.endpoint.Set(text); err != nil {
				return fmt.Errorf("%s=%s: %w", e.variable, text, err)
			}
		}
	}
	return nil
}
