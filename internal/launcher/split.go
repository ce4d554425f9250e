package launcher

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// DefaultRootDir is the kubelet's.
const DefaultRootDir = "/var/lib/kubelet"

// Commands are the arguments of both programs.
type Commands struct {
	Podconfigd, Podexecd []string
	// Version is the value of --version; empty: the flag wasn't given.
	Version string
	// CheckConfig is set if only the configuration is to be checked and printed.
	CheckConfig bool
}

// forBoth are the flags that both programs need.
var forBoth = []string{
	"config", "config-dir", "kubeconfig", "hostname-override", "v", "log-format", "access-file", "allow-uid",
	"max-connections-per-peer", "max-streams-per-connection", "max-requests-per-second",
	"tracing-endpoint", "tracing-sampling-rate-per-million",
}

// ownOfEach are flags that have another value for each program.
var ownOfEach = []string{"listen", "metrics-address"}

// ofPodconfigd are podconfigd's flags that no package has.
var ofPodconfigd = []string{"file-quiet-period", "max-consumers", "max-consumers-per-identity"}

// ofPodexecd are podexecd's flags that no package has.
var ofPodexecd = []string{
	"podconfig-endpoint", "podconfig-cert-file", "podconfig-key-file", "podconfig-ca-file", "pods-api-socket", "logging-format",
}

// Split divides a kubelet's arguments, without the program's name, between both programs. It returns an error for an
// argument that no kubelet and no program of Podstream has, and pflag.ErrHelp if help is asked for. It doesn't check values.
func Split(args []string) (Commands, error) {
	all, podconfigd := flagSets()
	var c Commands
	rootDir, hasSource := DefaultRootDir, false
	err := all.ParseAll(args, func(flag *pflag.Flag, value string) error {
		arg := "--" + flag.Name + "=" + value
		switch {
		case flag.Name == "version":
			c.Version = value
		case flag.Name == "check-config":
			c.CheckConfig = value == "true"
		case flag.Name == "root-dir":
			rootDir = value
		case slices.Contains(ownOfEach, flag.Name):
			return fmt.Errorf("--%s: podconfigd and podexecd each have one, so it needs their own command lines", flag.Name)
		case flag.Name == "logging-format":
			c.Podexecd = append(c.Podexecd, arg)
			c.Podconfigd = append(c.Podconfigd, "--log-format="+value)
		case slices.Contains(forBoth, flag.Name):
			c.Podconfigd, c.Podexecd = append(c.Podconfigd, arg), append(c.Podexecd, arg)
		case podconfigd[flag.Name]:
			c.Podconfigd = append(c.Podconfigd, arg)
		default:
			c.Podexecd = append(c.Podexecd, arg)
		}
		hasSource = hasSource || value != "" && slices.Contains(sourcesOf, flag.Name)
		return nil
	})
	switch {
	case err != nil:
		return Commands{}, err
	case all.NArg() > 0:
		return Commands{}, fmt.Errorf("unknown command %q: kubelet takes only flags", all.Arg(0))
	case rootDir == "":
		return Commands{}, errors.New("--root-dir must not be empty")
	}
	if rootDir, err = filepath.Abs(rootDir); err != nil {
		return Commands{}, fmt.Errorf("--root-dir: %w", err)
	}
	c.Podexecd = append(c.Podexecd, "--root-dir="+rootDir)
	c.Podconfigd = append(c.Podconfigd, "--root-dir="+filepath.Join(rootDir, "podconfigd"))
	if !hasSource {
		// A kubelet without these flags runs no pods; podconfigd would read its default directory.
		c.Podconfigd = append(c.Podconfigd, "--pod-manifest-path=")
	}
	return c, nil
}

// addSockets has both programs use sockets in this directory.
func (c *Commands) addSockets(dir string) {
	podconfigd, podexecd := "unix://"+filepath.Join(dir, "podconfigd.sock"), "unix://"+filepath.Join(dir, "podexecd.sock")
	c.Podconfigd = append(c.Podconfigd, "--listen="+podconfigd)
	c.Podexecd = append(c.Podexecd, "--listen="+podexecd, "--podconfig-endpoint="+podconfigd)
}

// sourcesOf are the flags that name sources of pods, or a configuration that may.
var sourcesOf = []string{"config", "config-dir", "kubeconfig", "pod-manifest-path", "manifest-url", "relay-from", "in-cluster"}

// flagSets returns a set with the flags of both programs, which are all flags of the kubelet too, and the names of those
// that only podconfigd obeys.
func flagSets() (all *pflag.FlagSet, podconfigd map[string]bool) {
	all = pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	all.SetOutput(io.Discard)
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	var base daemon.Flags
	base.AddFlags(all, "podexecd")
	var exec execconfig.Flags
	exec.AddFlags(all)
	for _, name := range []string{"version", "check-config"} {
		all.String(name, "", "")
		all.Lookup(name).NoOptDefVal = "true"
	}
	for _, name := range ofPodexecd {
		all.String(name, "", "")
	}
	for _, name := range ofPodconfigd {
		all.String(name, "", "")
	}
	for _, name := range []string{"config", "config-dir"} {
		all.String(name, "", "")
	}

	sources := pflag.NewFlagSet("", pflag.ContinueOnError)
	var source sourceconfig.Flags
	source.AddFlags(sources)
	podconfigd = map[string]bool{}
	sources.VisitAll(func(flag *pflag.Flag) {
		podconfigd[flag.Name] = true
		if all.Lookup(flag.Name) == nil {
			all.AddFlag(flag)
		}
	})
	for _, name := range ofPodconfigd {
		podconfigd[name] = true
	}
	return all, podconfigd
}
