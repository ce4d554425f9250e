package launcher

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/kubeletdir"
)

// The kubelet's own directories.
const (
	defaultRootDir = kubeletdir.Default
	defaultCertDir = "/var/lib/kubelet/pki"
)

// Commands are the command lines of both daemons, without the programs.
type Commands struct {
	Podconfigd, Podexecd []string
	// RootDir is the kubelet's --root-dir, absolute. It is podexecd's --root-dir and --kubelet-dir. StoreDir is podconfigd's, beneath it.
	RootDir, StoreDir string
	// OOMScoreAdj is --oom-score-adj, if it was given.
	OOMScoreAdj *int
}

// forBoth are the flags that both daemons have.
var forBoth = []string{
	"config", "config-dir", "kubeconfig", "hostname-override", "v", "log-format", "logging-format", "access-file", "allow-uid",
	"max-connections", "max-connections-per-peer", "max-handshakes", "max-streams-per-connection", "max-calls-per-peer",
	"max-requests-per-second", "max-request-bytes", "request-timeout", "handshake-timeout",
	"tracing-endpoint", "tracing-sampling-rate-per-million",
}

// repeated are flags of the kubelet whose last value counts. podconfigd's flag of that name adds a source each time.
var repeated = []string{"pod-manifest-path", "manifest-url"}

// sourceFlags name sources, or files that may name some.
var sourceFlags = []string{"config", "config-dir", "kubeconfig", "pod-manifest-path", "manifest-url", "oci-artifact", "relay-from", "in-cluster"}

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
	c := &Commands{RootDir: filepath.Clean(in(cmp.Or(flags.common.RootDir, defaultRootDir)))}
	c.StoreDir = filepath.Join(c.RootDir, storeName)
	if flags.set.Changed("oom-score-adj") {
		adj, err := flags.set.GetInt("oom-score-adj")
		if err != nil {
			return nil, err
		}
		c.OOMScoreAdj = &adj
	}
	c.Podconfigd = []string{"--root-dir=" + c.StoreDir}
	// The directory is a kubelet's, whose pods may run. A flag of the command line is later, and so takes precedence.
	c.Podexecd = []string{"--root-dir=" + c.RootDir, argument(kubeletDirFlag, c.RootDir), argument(adoptFlag, "true")}
	if !flags.set.Changed("cert-dir") {
		c.Podexecd = append(c.Podexecd, "--cert-dir="+defaultCertDir)
	}
	for i, g := range list {
		if g.name == "pod-manifest-path" {
			// No part of an absolute path is a source's name.
			g.value = in(g.value)
		}
		again := slices.ContainsFunc(list[i+1:], func(later given) bool { return later.name == g.name })
		both := slices.Contains(forBoth, g.name)
		if (both || flags.ofPodconfigd[g.name]) && (!again || !slices.Contains(repeated, g.name)) {
			name := g.name
			if name == "logging-format" {
				name = "log-format"
			}
			c.Podconfigd = append(c.Podconfigd, argument(name, g.value))
		}
		if g.name != "root-dir" && (both || !flags.ofPodconfigd[g.name]) {
			c.Podexecd = append(c.Podexecd, argument(g.name, g.value))
		}
	}
	if !slices.ContainsFunc(list, func(g given) bool { return g.value != "" && slices.Contains(sourceFlags, g.name) }) {
		// The kubelet reads no manifests by default.
		c.Podconfigd = append(c.Podconfigd, "--pod-manifest-path=")
	}
	return c, nil
}

// addSockets has both daemons use sockets in this directory.
func (c *Commands) addSockets(dir string) {
	podconfigd, podexecd := "unix://"+filepath.Join(dir, "podconfigd.sock"), "unix://"+filepath.Join(dir, "podexecd.sock")
	c.Podconfigd = append(c.Podconfigd, "--listen="+podconfigd)
	c.Podexecd = append(c.Podexecd, "--listen="+podexecd, "--podconfig-endpoint="+podconfigd)
}

func argument(name, value string) string { return fmt.Sprintf("--%s=%s", name, value) }

// isHelp reports whether the command line asks for help.
func isHelp(err error) bool { return err == pflag.ErrHelp } //nolint:errorlint // pflag returns it as it is.
