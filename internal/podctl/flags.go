package podctl

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstream/podstream/client"
)

// endpoint is where a daemon listens: a Unix socket or a TCP address.
type endpoint struct {
	path    string
	address string // host:port; empty for a socket
}

// String implements pflag.Value: the endpoint as it would be written on the command line.
func (e *endpoint) String() string {
	switch {
	case e.address != "":
		return "tcp://" + e.address
	case strings.HasPrefix(e.path, "/"):
		return "unix://" + e.path
	}
	return "unix:" + e.path
}

// Type implements pflag.Value.
func (e *endpoint) Type() string { return "endpoint" }

// Set implements pflag.Value. It takes tcp://host:port, a socket's path, and gRPC's names for a socket,
// unix:///absolute/path and unix:path. A path has a slash: a word without one may be meant for a host.
func (e *endpoint) Set(s string) error {
	const want = "want a socket's path, unix:///PATH or tcp://HOST:PORT"
	if rest, ok := strings.CutPrefix(s, "tcp://"); ok {
		if host, port, err := net.SplitHostPort(rest); err != nil || host == "" || port == "" {
			return fmt.Errorf("%s: after tcp:// come a host and a port", want)
		}
		*e = endpoint{address: rest}
		return nil
	}
	if rest, ok := strings.CutPrefix(s, "unix://"); ok {
		if len(rest) < 2 || rest[0] != '/' {
			return fmt.Errorf("%s: after unix:// comes an absolute path", want)
		}
		*e = endpoint{path: rest}
		return nil
	}
	if rest, ok := strings.CutPrefix(s, "unix:"); ok && rest != "" {
		*e = endpoint{path: rest}
		return nil
	}
	if strings.Contains(s, "/") && !strings.Contains(s, "://") {
		*e = endpoint{path: s}
		return nil
	}
	return errors.New(want)
}

// addTLSFlags adds the flags for endpoints tcp://host:port.
func addTLSFlags(flags *pflag.FlagSet, t *client.TLS) {
	flags.StringVar(&t.CertFile, "tls-cert-file", "", "the `file` of podctl's certificate, in PEM, for tcp endpoints")
	flags.StringVar(&t.KeyFile, "tls-private-key-file", "", "the `file` of the certificate's key, in PEM")
	flags.StringVar(&t.CAFile, "tls-ca-file", "", "the `file` of the authorities that may sign a daemon's certificate; empty: the system's")
	flags.StringVar(&t.ServerName, "tls-server-name", "", "the `name` that must stand in a daemon's certificate; empty: the endpoint's host")
}

// The global flags, by what they are for.
var (
	podconfigFlags = []string{"podconfig-endpoint"}
	podexecFlags   = []string{"podexec-endpoint"}
	tlsFlags       = []string{"tls-cert-file", "tls-private-key-file", "tls-ca-file", "tls-server-name"}
	outputFlags    = []string{"output"}
	timeoutFlags   = []string{"request-timeout"}
)

// ignoredFlags are global flags that a command accepts but doesn't use, by the command's path without podctl.
var ignoredFlags = map[string][]string{
	"config current-context": slices.Concat(podconfigFlags, podexecFlags, tlsFlags, outputFlags, timeoutFlags),
	"config get-contexts":    slices.Concat(podconfigFlags, podexecFlags, tlsFlags, timeoutFlags),
	"config use-context":     slices.Concat(podconfigFlags, podexecFlags, tlsFlags, outputFlags, timeoutFlags),
	"config view":            slices.Concat(podconfigFlags, podexecFlags, tlsFlags, timeoutFlags),

	"watch":     slices.Concat(podexecFlags, timeoutFlags),
	"describe":  outputFlags,
	"logs":      outputFlags,
	"exec":      slices.Concat(podconfigFlags, outputFlags),
	"restart":   slices.Concat(podconfigFlags, outputFlags),
	"wait":      slices.Concat(podconfigFlags, outputFlags),
	"attach":    slices.Concat(podconfigFlags, outputFlags),
	"cp":        slices.Concat(podconfigFlags, outputFlags),
	"sources":   podexecFlags,
	"objects":   podexecFlags,
	"consumers": podexecFlags,
	"diff":      podexecFlags,
	"edit":      outputFlags,
	"migrate":   slices.Concat(podconfigFlags, podexecFlags, tlsFlags),
	"record":    slices.Concat(podexecFlags, outputFlags, timeoutFlags),
	"images":    podconfigFlags,
	"volumes":   podconfigFlags,
	"web":       outputFlags,
	"replay":    slices.Concat(podconfigFlags, podexecFlags, tlsFlags, outputFlags, timeoutFlags),

	"port-forward": slices.Concat(podconfigFlags, outputFlags),
}

// checkIgnored refuses -o for a command with one form of output, so that the output isn't taken for another form.
func checkIgnored(cmd *cobra.Command) error {
	for _, name := range outputFlags {
		if slices.Contains(ignoredFlags[pathOf(cmd)], name) && cmd.Flags().Changed(name) {
			return fmt.Errorf("%s prints text only: it has no --%s", cmd.CommandPath(), name)
		}
	}
	return nil
}

// pathOf returns the path of a command without podctl: "config view".
func pathOf(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// hideIgnored hides these flags in the help of the command, and in that of its subcommands.
func hideIgnored(cmd *cobra.Command) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		for _, name := range ignoredFlags[pathOf(cmd)] {
			cmd.InheritedFlags().Lookup(name).Hidden = true
		}
		help(cmd, args)
	})
}
