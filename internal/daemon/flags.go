package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Flags are the flags that both daemons have, named as the kubelet's where the kubelet has them.
type Flags struct {
	// RootDir is where the daemon keeps its state.
	RootDir string
	// Listen are the gRPC addresses, unix:///path.
	Listen []string
	// HostnameOverride is the node's name. Empty: the host's name.
	HostnameOverride string
	// MetricsAddress is the host:port of the metrics page. Empty: none.
	MetricsAddress string
	// LogFormat is text or json.
	LogFormat string
	// Verbosity is the kubelet's -v: from 4 on, debug messages are logged.
	Verbosity int
}

// AddFlags adds the flags to fs. name is the daemon's, for the default paths.
func (f *Flags) AddFlags(fs *pflag.FlagSet, name string) {
	fs.StringVar(&f.RootDir, "root-dir", "/var/lib/podstream/"+name, "directory for the daemon's state")
	fs.StringArrayVar(&f.Listen, "listen", []string{"unix:///run/podstream/" + name + ".sock"},
		"gRPC address to serve on, unix:///path; repeatable")
	fs.StringVar(&f.HostnameOverride, "hostname-override", "", "node name; default: the host's name, in lower case")
	fs.StringVar(&f.MetricsAddress, "metrics-address", "", "host:port to serve Prometheus metrics on, at /metrics; default: none")
	fs.StringVar(&f.LogFormat, "log-format", "text", "text or json")
	fs.IntVarP(&f.Verbosity, "v", "v", 0, "log verbosity; 4 and more logs debug messages")
}

// NodeName is the node's name as the kubelet derives it: the override or the host's name, trimmed and in lower case. It goes
// into the names of static pods, so one that no object could have is an error, rather than one for each pod later.
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
