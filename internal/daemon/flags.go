package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/grpcserver"
)

// Flags are the flags of both daemons, with the kubelet's names where it has them.
type Flags struct {
	// RootDir is the directory of the daemon's state.
	RootDir string
	// Listen are the gRPC addresses, unix:///path or tcp://host:port.
	Listen []string
	// TLSCertFile and TLSPrivateKeyFile are the server's certificate and key, ClientCAFile the CAs of its clients.
	// Without all three only Unix sockets can be served; podexecd's node API doesn't need all of them.
	TLSCertFile, TLSPrivateKeyFile, ClientCAFile string
	// NodeClientCAFile are the CAs of the nodes' certificates. podconfigd has the flag. Empty: none.
	NodeClientCAFile string
	// AccessFile gives roles to certificates and uids. Empty: none.
	AccessFile string
	// AllowUIDs may use the Unix sockets, beyond root and the daemon's own user.
	AllowUIDs []uint
	// Limits are those that have flags. They have no zero values once the flags are parsed.
	Limits grpcserver.Limits
	// HostnameOverride is the node's name. Empty: the host's name.
	HostnameOverride string
	// MetricsAddress is the host:port of the metrics page. Empty: none.
	MetricsAddress string
	// LogFormat is text or json.
	LogFormat string
	// Verbosity is the kubelet's -v: from 4 on, debug messages are logged.
	Verbosity int
	// level is the level of the log, set by Logger.
	level *slog.LevelVar
}

// AddFlags adds the flags to fs. name is the daemon's name, for the default paths.
func (f *Flags) AddFlags(fs *pflag.FlagSet, name string) {
	fs.StringVar(&f.RootDir, "root-dir", "/var/lib/podstream/"+name, "`directory` for the daemon's state")
	fs.StringArrayVar(&f.Listen, "listen", []string{"unix:///run/podstream/" + name + ".sock"},
		"gRPC `address` to serve on, unix:///path, or tcp://host:port with mutual TLS; repeatable")
	fs.StringVar(&f.TLSCertFile, "tls-cert-file", "",
		"`file` of the certificate (and intermediates) to serve tcp:// with; re-read when it changes")
	fs.StringVar(&f.TLSPrivateKeyFile, "tls-private-key-file", "", "`file` of the key of --tls-cert-file")
	fs.StringVar(&f.ClientCAFile, "client-ca-file", "",
		"`file` of the CAs of client certificates for tcp://; --access-file sets their roles")
	fs.StringVar(&f.AccessFile, "access-file", "",
		"YAML `file` that gives roles to client certificates, and to uids on Unix sockets; re-read when it changes")
	fs.UintSliceVar(&f.AllowUIDs, "allow-uid", nil,
		"`uid` that may use the Unix sockets as a consumer, beyond root and the daemon's own; repeatable")
	addLimits(fs, &f.Limits)
	fs.StringVar(&f.HostnameOverride, "hostname-override", "", "`name` of the node; default: the host's name, in lower case")
	fs.StringVar(&f.MetricsAddress, "metrics-address", "",
		"`host:port` to serve Prometheus metrics on, at /metrics, and health, at /healthz and /readyz, unauthenticated: use an address that only monitoring reaches; default: none")
	fs.StringVar(&f.LogFormat, "log-format", "text", "`format` of the log: text or json")
	fs.IntVarP(&f.Verbosity, "v", "v", 0, "verbosity `level` of the log; 4 and more logs debug messages")
}

// Access returns the access configuration and limits of the flags. It fails on flags that can't be combined; it
// doesn't read files. The caller adds the logger and the minimum roles.
func (f *Flags) Access() (access.Config, grpcserver.Limits, error) {
	cfg := access.Config{File: f.AccessFile}
	if err := f.checkTLS(); err != nil {
		return cfg, grpcserver.Limits{}, err
	}
	// Without TCP they are used by other servers, such as podexecd's node API, and may be incomplete.
	if f.tcp() >= 0 {
		cfg.CertFile, cfg.KeyFile, cfg.ClientCAFile = f.TLSCertFile, f.TLSPrivateKeyFile, f.ClientCAFile
		cfg.NodeClientCAFile = f.NodeClientCAFile
	} else if f.NodeClientCAFile != "" {
		return cfg, grpcserver.Limits{}, errors.New("--node-client-ca-file is for clients over TCP; give --listen tcp://host:port too")
	}
	for _, uid := range f.AllowUIDs {
		// The kernel uses the largest 32-bit value for "no user".
		if uid >= math.MaxUint32 {
			return cfg, grpcserver.Limits{}, fmt.Errorf("--allow-uid %d: no user has that uid", uid)
		}
		cfg.AllowUIDs = append(cfg.AllowUIDs, uint32(uid))
	}
	return cfg, f.Limits, checkLimits(f.Limits)
}

// checkTLS returns an error if required flags are missing.
func (f *Flags) checkTLS() error {
	var missing []string
	for _, flag := range []struct{ name, value string }{
		{"--tls-cert-file", f.TLSCertFile}, {"--tls-private-key-file", f.TLSPrivateKeyFile}, {"--client-ca-file", f.ClientCAFile},
	} {
		if flag.value == "" {
			missing = append(missing, flag.name)
		}
	}
	tcp := f.tcp()
	switch {
	case tcp >= 0 && len(missing) > 0:
		return fmt.Errorf("--listen %s: TCP is served only with mutual TLS; give %s too, or use unix:///path",
			f.Listen[tcp], strings.Join(missing, " and "))
	case tcp >= 0 && f.AccessFile == "":
		return fmt.Errorf("--listen %s: no client would have a role; give --access-file, which says who may see what", f.Listen[tcp])
	case f.TLSCertFile == "" && f.TLSPrivateKeyFile != "":
		return errors.New("--tls-private-key-file needs --tls-cert-file")
	case f.TLSCertFile != "" && f.TLSPrivateKeyFile == "":
		return errors.New("--tls-cert-file needs --tls-private-key-file")
	}
	return nil
}

// tcp returns the index of the first TCP address, or -1.
func (f *Flags) tcp() int {
	return slices.IndexFunc(f.Listen, func(address string) bool { return strings.HasPrefix(address, "tcp://") })
}

// NodeName returns the node's name as the kubelet derives it: the override or the host's name, trimmed and in lower
// case. It becomes a part of the names of static pods, so an invalid one is an error here, rather than an error for
// each pod.
func (f *Flags) NodeName() (string, error) {
	name := f.HostnameOverride
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("find the node's name: %w; --hostname-override sets it", err)
		}
		name = host
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return "", errors.New("the node's name is empty; --hostname-override sets it")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q can't be a node's name: %s; --hostname-override sets another", name, strings.Join(problems, "; "))
	}
	return name, nil
}
