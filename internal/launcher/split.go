package launcher

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
)

// The kubelet's own directories.
const (
	defaultRootDir = "/var/lib/kubelet"
	defaultCertDir = "/var/lib/kubelet/pki"
)

// Commands are the command lines of both daemons, without the programs.
type Commands struct {
	Podconfigd, Podexecd []string
	// RootDir is the kubelet's --root-dir, absolute. It is podexecd's too. StoreDir is podconfigd's, beneath it.
	RootDir, StoreDir string
	// OOMScoreAdj is --oom-score-adj, if it was given.
	OOMScoreAdj *int
}

// podconfigdFlags are the flags that podconfigd gets, with their names there. shared are those that podexecd gets as well.
var podconfigdFlags = map[string]struct {
	as     string
	shared bool
	// last: podconfigd's flag may be given several times, and each adds a source. The kubelet's last one counts.
	last bool
}{
	"config":               {as: "config", shared: true},
	"config-dir":           {as: "config-dir", shared: true},
	"kubeconfig":           {as: "kubeconfig", shared: true},
	"hostname-override":    {as: "hostname-override", shared: true},
	"v":                    {as: "v", shared: true},
	"logging-format":       {as: "log-format", shared: true},
	"pod-manifest-path":    {as: "pod-manifest-path", last: true},
	"file-check-frequency": {as: "file-check-frequency"},
	"manifest-url":         {as: "manifest-url", last: true},
	"manifest-url-header":  {as: "manifest-url-header"},
	"http-check-frequency": {as: "http-check-frequency"},
}

// given is a flag of the command line, in its order there.
type given struct{ name, value string }

// Split returns the daemons' command lines for a kubelet's. Relative paths are in dir. It reads no files. The error of an
// unknown flag, or of a value that the flag can't have, names the flag. pflag.ErrHelp is --help.
func Split(args []string, dir string) (*Commands, error) {
	flags := newFlagSet()
	list, err := flags.parse(args)
	if err != nil {
		return nil, err
	}
	in := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	c := &Commands{RootDir: in(cmp.Or(flags.common.RootDir, defaultRootDir))}
	c.StoreDir = filepath.Join(c.RootDir, storeName)
	if flags.set.Changed("oom-score-adj") {
		adj, err := flags.set.GetInt("oom-score-adj")
		if err != nil {
			return nil, err
		}
		c.OOMScoreAdj = &adj
	}
	c.Podconfigd = []string{"--root-dir=" + c.StoreDir}
	c.Podexecd = []string{"--root-dir=" + c.RootDir}
	if !flags.set.Changed("cert-dir") {
		c.Podexecd = append(c.Podexecd, "--cert-dir="+defaultCertDir)
	}
	for i, g := range list {
		to, ok := podconfigdFlags[g.name]
		if g.name == "pod-manifest-path" {
			// Absolute, no part of it is a source's name.
			g.value = in(g.value)
		}
		later := slices.ContainsFunc(list[i+1:], func(other given) bool { return other.name == g.name })
		if ok && (!to.last || !later) {
			c.Podconfigd = append(c.Podconfigd, argument(to.as, g.value))
		}
		if g.name != "root-dir" && (!ok || to.shared) {
			c.Podexecd = append(c.Podexecd, argument(g.name, g.value))
		}
	}
	if !slices.ContainsFunc([]string{"pod-manifest-path", "config", "config-dir"}, flags.set.Changed) {
		// The kubelet reads no manifests by default.
		c.Podconfigd = append(c.Podconfigd, "--pod-manifest-path=")
	}
	return c, nil
}

func argument(name, value string) string { return fmt.Sprintf("--%s=%s", name, value) }

// isHelp reports whether the command line asks for help.
func isHelp(err error) bool { return err == pflag.ErrHelp } //nolint:errorlint // pflag returns it as it is.
