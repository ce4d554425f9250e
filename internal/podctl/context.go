package podctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/contexts"
)

// envConfig is the path of podctl.yaml.
const envConfig = "PODCTL_CONFIG"

// contextFlags are the flags and settings by which podctl chooses a context.
type contextFlags struct {
	// file is the path of podctl.yaml, and name the context.
	file, name string
}

// The names of the flags.
const (
	configFlag  = "config"
	contextFlag = "context"
)

// checkEndpoint returns why a text isn't the endpoint of a context. A relative path would depend on the directory in which podctl
// is run.
func checkEndpoint(text string) error {
	var e endpoint
	if err := e.Set(text); err != nil {
		return err
	}
	if e.address == "" && !filepath.IsAbs(e.path) {
		return errors.New("want an absolute path")
	}
	return nil
}

// configPath returns the path of podctl.yaml, and whether the file must exist: one that is named must. The path is empty if
// there is no file.
func (t *tool) configPath(cmd *cobra.Command) (path string, named bool) {
	if flag := cmd.Root().PersistentFlags().Lookup(configFlag); flag.Changed {
		return t.context.file, true
	}
	if path := t.Getenv(envConfig); path != "" {
		return path, true
	}
	home := t.Getenv("HOME")
	if home == "" {
		return "", false
	}
	return filepath.Join(home, ".config", "podstream", "podctl.yaml"), false
}

// loadContexts reads podctl.yaml. It returns nil if there is none, and none is named.
func (t *tool) loadContexts(ctx context.Context, cmd *cobra.Command) (*contexts.File, error) {
	path, named := t.configPath(cmd)
	if path == "" {
		return nil, nil //nolint:nilnil // No file is no failure.
	}
	file, err := contexts.Load(ctx, path, checkEndpoint)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil //nolint:nilnil // As above.
	}
	return file, err
}

// useContext sets the endpoints and the credentials from the context, but those that a flag has set. Environment variables take
// precedence over the current context, and --context over them. A context that can't be used is an error: podctl never uses other
// endpoints instead.
func (t *tool) useContext(ctx context.Context, cmd *cobra.Command) error {
	if !needsContext(cmd) {
		return nil
	}
	flags := cmd.Root().PersistentFlags()
	given := flags.Lookup(contextFlag).Changed
	if given && t.context.name == "" {
		return nil // --context= : none
	}
	file, err := t.loadContexts(ctx, cmd)
	switch {
	case err != nil:
		return err
	case file == nil && given:
		path, _ := t.configPath(cmd)
		return fmt.Errorf("there is no context %q: there is no file %s", t.context.name, cmp.Or(path, "podctl.yaml"))
	case file == nil:
		return nil
	}
	name := t.context.name
	if !given {
		if name = file.CurrentContext; name == "" {
			return nil
		}
	}
	chosen, credential, err := file.Context(name)
	if err != nil {
		return err
	}
	for _, d := range []struct {
		daemon     *daemon
		flag, text string
	}{{&t.podconfigd, podconfigFlags[0], chosen.PodconfigEndpoint}, {&t.podexecd, podexecFlags[0], chosen.PodexecEndpoint}} {
		if flags.Changed(d.flag) || d.daemon.fromEnvironment && !given {
			continue
		}
		d.daemon.context = name
		d.daemon.endpoint = endpoint{}
		if d.text == "" {
			continue // connect fails.
		}
		if err := d.daemon.endpoint.Set(d.text); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		flag, text string
		setting    *string
	}{
		{"tls-cert-file", credential.CertFile, &t.tls.CertFile}, {"tls-private-key-file", credential.KeyFile, &t.tls.KeyFile},
		{"tls-ca-file", credential.CAFile, &t.tls.CAFile}, {"tls-server-name", chosen.TLSServerName, &t.tls.ServerName},
	} {
		if !flags.Changed(s.flag) {
			*s.setting = s.text
		}
	}
	return nil
}

// needsContext reports whether a command asks a daemon. A command that doesn't works with a podctl.yaml that can't be used, too.
func needsContext(cmd *cobra.Command) bool {
	if !cmd.HasParent() {
		return false
	}
	if client := cmd.Flags().Lookup("client"); client != nil && client.Value.String() == "true" {
		return false
	}
	top := cmd
	for top.Parent().HasParent() {
		top = top.Parent()
	}
	ignored := ignoredFlags[pathOf(cmd)]
	offline := slices.Contains(ignored, podconfigFlags[0]) && slices.Contains(ignored, podexecFlags[0])
	return !offline && !slices.Contains([]string{"completion", "help", configCommandName}, top.Name())
}
